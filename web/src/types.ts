// Written by web/api_types.py from the OpenAPI document. Do not edit.
/* biome-ignore-all format: written by a program */

export interface AttemptView {
  number: number;
  verdict: Verdict | null;
  started_at: string | null;
  finished_at: string | null;
  duration_ms: number | null;
  node: number | null;
  error: string | null;
  detail: Record<string, unknown> | null;
}

export interface AuditEntry {
  at: string;
  tenant: string | null;
  actor: string;
  action: string;
  object: string;
  before: unknown;
  after: unknown;
  request_id: string | null;
  address: string | null;
}

export interface AuditPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<AuditEntry>;
}

export interface Backfill {
  id: number;
  job_id: string;
  state: string;
  from: string;
  to: string;
  mode: Mode;
  order: Order;
  pace: string;
  max_parallel: number;
  total: number;
  queued: number;
  left_out: number;
  live: number;
  finished: number;
  created_at: string;
  finished_at: string | null;
}

export interface BackfillAnswer {
  backfill: Backfill | null;
  total: number;
  fire_times: Array<string>;
}

export interface BackfillPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<Backfill>;
}

export interface BasicAuth {
  kind: "basic";
  username: string | SecretRef;
  password: string | SecretRef;
}

export interface BatchAnswer {
  created: number;
  refused: number;
  items: Array<BatchItem>;
  complete: boolean;
}

export interface BatchItem {
  index: number;
  id: string | null;
  problem: Problem | null;
}

export interface BearerAuth {
  kind: "bearer";
  token: string | SecretRef;
}

export interface Broken {
  id: string;
  detail: string;
}

export interface Bucket {
  at: string;
  succeeded: number;
  dead: number;
  skipped: number;
  cancelled: number;
  expired: number;
  p50_ms: number | null;
  p99_ms: number | null;
}

export interface Calendar {
  name: string;
  ranges: Array<CalendarRange>;
  updated_at: string;
}

export interface CalendarRange {
  from: string;
  to: string;
  reason: string | null;
}

export interface CalendarRanges {
  ranges: Array<CalendarRange>;
}

export interface Calendars {
  broken: Array<Broken>;
  items: Array<Calendar>;
}

export interface CancelAnswer {
  job: Job | null;
  cancelled: number;
  asked_to_stop: number;
  not_retried: number;
}

export type CancelResult = "cancel_requested" | "cancelled";

export interface CancelledExecution {
  id: string;
  job_id: string;
  job_name: string | null;
  state: State;
  cause: string;
  queue: string;
  priority: number;
  fire_at: string;
  due_at: string;
  run_at: string;
  started_at: string | null;
  finished_at: string | null;
  lag_ms: number | null;
  attempt: number;
  reason: string | null;
  cancel_requested: boolean;
  rerun_of: string | null;
  backfill: number | null;
  fire_until: string | null;
  fire_count: number;
  attempts: Array<AttemptView>;
  answer: CancelResult;
  final_state: State | null;
}

export interface ClientTls {
  client_certificate: SecretRef;
}

export interface ComingFire {
  at: string;
  job_id: string;
  name: string | null;
  execution: string | null;
  attempt: number;
}

export interface ComingFires {
  items: Array<ComingFire>;
}

export interface Count {
  count: number;
  capped: boolean;
}

export type Dst = "cron" | "literal" | "once";

export interface Due {
  count: number;
  capped: boolean;
  oldest_ms: number | null;
}

export interface Ended {
  succeeded: number;
  dead: number;
  skipped: number;
  cancelled: number;
  expired: number;
}

export interface ErrorGroup {
  fingerprint: string | null;
  status: string | null;
  error: string | null;
  count: number;
  jobs: number;
  last_hour: number;
  first_at: string;
  last_at: string;
  sample: string;
}

export interface ErrorGroups {
  capped: boolean;
  items: Array<ErrorGroup>;
}

export interface Exclude {
  dates: Array<string>;
  calendars: Array<string>;
  policy: ExcludePolicy;
}

export type ExcludePolicy = "drop" | "hold";

export interface Execution {
  id: string;
  job_id: string;
  job_name: string | null;
  state: State;
  cause: string;
  queue: string;
  priority: number;
  fire_at: string;
  due_at: string;
  run_at: string;
  started_at: string | null;
  finished_at: string | null;
  lag_ms: number | null;
  attempt: number;
  reason: string | null;
  cancel_requested: boolean;
  rerun_of: string | null;
  backfill: number | null;
  fire_until: string | null;
  fire_count: number;
  attempts: Array<AttemptView>;
}

export interface ExecutionPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<Execution>;
}

export interface Explanation {
  execution: Execution;
  explanation: Array<string>;
  steps: Array<StepView>;
}

export interface FreshKey {
  key: Key;
  text: string;
}

export interface Health {
  status: string;
  detail: string | null;
}

export interface HttpTarget {
  kind: "http";
  url: string;
  method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  headers: Record<string, unknown>;
  body: unknown;
  timeout: string | number | null;
  auth: BearerAuth | BasicAuth | OAuth2Auth | null;
  expect: Array<number | string>;
  tls: ClientTls | null;
}

export interface Identity {
  key_id: string;
  scopes: Array<Scope>;
  tenant: string;
  limits_in_force: Limits;
}

export interface Job {
  id: string;
  name: string | null;
  description: string | null;
  kind: string;
  state: string;
  state_reason: string | null;
  paused_until: string | null;
  schedule: Schedule;
  target: HttpTarget | NoopTarget;
  queue: string;
  priority: number;
  tags: Array<string>;
  timeout: string | number | null;
  start_within: string | number | null;
  retry: RetryView;
  misfire: MisfireView;
  overlap: Overlap;
  limit: Limit | null;
  precision: Precision;
  next_fire_at: string | null;
  fire_count: number;
  version: number;
  created_at: string;
  updated_at: string;
  note: string | null;
  schedule_words?: string;
  recent?: Array<RecentFire>;
}

export interface JobBody {
  schedule: string | Array<string | Schedule> | Schedule;
  target: HttpTarget | NoopTarget;
  name: string | null;
  description: string | null;
  queue: string;
  priority: number;
  tags: Array<string>;
  timeout: string | number | null;
  start_within: string | number | null;
  retry: Retry;
  misfire: MisfirePolicy | Misfire;
  overlap: Overlap;
  limit: Limit | null;
  precision: Precision;
}

export interface JobPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<Job>;
}

export interface JobPatch {
  schedule?: string | Array<string | Schedule> | Schedule;
  target?: HttpTarget | NoopTarget;
  name?: string | null;
  description?: string | null;
  queue?: string;
  priority?: number;
  tags?: Array<string>;
  timeout?: string | number | null;
  start_within?: string | number | null;
  retry?: Retry;
  misfire?: MisfirePolicy | Misfire;
  overlap?: Overlap;
  limit?: Limit | null;
  precision?: Precision;
}

export interface Key {
  id: string;
  prefix: string;
  name: string;
  tenant: string;
  scopes: Array<Scope>;
  valid: boolean;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  revoked_at: string | null;
  replaced_by: string | null;
}

export interface KeyPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<Key>;
}

export interface Lateness {
  p50_ms: number | null;
  p99_ms: number | null;
  on_time: number | null;
}

export interface Limit {
  key: string;
  max_parallel: number | null;
  rate: number | null;
  per: string | number;
}

export interface Limits {
  pending_jobs: number | null;
  payload_bytes: number | null;
  min_interval: string | number | null;
  requests_per_second: number | null;
  request_burst: number | null;
  in_flight: number | null;
  fires_per_second: number | null;
}

export interface LimitsPatch {
  pending_jobs?: number | null;
  payload_bytes?: number | null;
  min_interval?: string | number | null;
  requests_per_second?: number | null;
  request_burst?: number | null;
  in_flight?: number | null;
  fires_per_second?: number | null;
}

export interface LoggedOut {
  ended: boolean;
}

export interface Login {
  key: string | null;
  ticket: string | null;
}

export interface Misfire {
  policy: MisfirePolicy;
  lookback: string | number;
  max: number;
  pace: string | number;
  grace: string | number;
}

export type MisfirePolicy = "fire_all" | "fire_once" | "skip";

export interface MisfireView {
  policy: MisfirePolicy;
  lookback: string | number;
  max: number;
  pace: string | number;
  grace: string | number;
}

export type Mode = "all" | "missing";

export interface Need {
  kind: "dead" | "late" | "node" | "overdue" | "paused";
  text: string;
  count: number;
  link: string;
  since: string | null;
}

export interface NewBackfill {
  from: string;
  to: string;
  mode: Mode;
  order: Order;
  pace: string | number;
  max_parallel: number;
  dry_run: boolean;
}

export interface NewJob {
  schedule: string | Array<string | Schedule> | Schedule;
  target: HttpTarget | NoopTarget;
  name: string | null;
  description: string | null;
  queue: string;
  priority: number;
  tags: Array<string>;
  timeout: string | number | null;
  start_within: string | number | null;
  retry: Retry;
  misfire: MisfirePolicy | Misfire;
  overlap: Overlap;
  limit: Limit | null;
  precision: Precision;
  idempotency_key: string | null;
}

export interface NewKey {
  name: string;
  scopes: Array<Scope>;
  tenant: string | null;
  expires_at: string | null;
  expires_in: string | number | null;
}

export interface NewTenant {
  name: string;
  weight: number;
  limits: LimitsPatch;
}

export interface NodeView {
  id: number;
  name: string;
  roles: Array<string>;
  version: string;
  schema: number | null;
  alive: boolean;
  shards: number;
  started_at: string;
  seen_at: string;
  running: number | null;
  held: number | null;
  saturation: number | null;
}

export interface Nodes {
  items: Array<NodeView>;
}

export interface NoopTarget {
  kind: "noop";
}

export type Nothing = Record<string, unknown>;

export interface OAuth2Auth {
  kind: "oauth2";
  token_url: string;
  client_id: string | SecretRef;
  client_secret: SecretRef;
  scope: string | null;
  audience: string | null;
}

export type Order = "newest_first" | "oldest_first";

export type Overlap = "allow" | "collapse" | "queue" | "replace" | "skip";

export interface Pause {
  reason: string | null;
  until: string | null;
}

export interface PauseAnswer {
  job: Job;
  held: number;
}

export type Precision = "exact" | "normal";

export interface Preview {
  fires: Array<PreviewFire>;
  explanation: string;
  warnings: Array<string>;
}

export interface PreviewFire {
  at: string;
  local: string;
}

export interface PreviewRequest {
  schedule: string | Array<string | Schedule> | Schedule;
  after: string | null;
  limit: number;
}

export interface Problem {
  title: string;
  status: number;
  detail: string;
  type: string;
  field: string | null;
  hint: string | null;
  request_id: string | null;
}

export interface Reason {
  reason: string | null;
}

export interface RecentFire {
  id: string;
  fire_at: string;
  state: State;
  late_ms: number | null;
  run_ms: number | null;
  reason: string | null;
}

export interface Reseal {
  cursor: string | null;
}

export interface ResealAnswer {
  key_id: string;
  secrets: number;
  webhook_secrets: number;
  unopened: Array<UnopenedSecret>;
  remaining: number;
  next_cursor: string | null;
}

export interface Resume {
  dry_run: boolean;
}

export interface ResumeAnswer {
  job: Job;
  dry_run: boolean;
  fired: number;
  skipped: number;
  fire_times: Array<string>;
}

export interface Retry {
  max_attempts: number;
  initial_backoff: string | number;
  max_backoff: string | number;
  multiplier: number;
  jitter: number;
  on: Array<number | string>;
}

export interface RetryView {
  max_attempts: number;
  initial_backoff: string | number;
  max_backoff: string | number;
  multiplier: number;
  jitter: number;
  on: Array<number | string>;
}

export interface Rotation {
  overlap: string | number;
}

export interface Run {
  override_overlap: boolean;
}

export interface Schedule {
  at: string | null;
  in: string | number | null;
  now: boolean | null;
  every: string | number | null;
  cron: string | null;
  time_zone: string | null;
  dst: Dst | null;
  starts_at: string | null;
  ends_at: string | null;
  max_fires: number | null;
  jitter: string | number | null;
  any_of: Array<Schedule> | null;
  exclude: Exclude | null;
}

export type Scope = "admin" | "read" | "worker" | "write";

export interface Secret {
  name: string;
  updated_at: string;
}

export interface SecretPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<Secret>;
}

export interface SecretRef {
  secret: string;
}

export interface SecretValue {
  value: unknown;
}

export interface Series {
  step_s: number;
  covers_from: string;
  items: Array<Bucket>;
}

export interface SessionView {
  key_id: string;
  tenant: string;
  scopes: Array<Scope>;
  now: string;
  version: string;
  echo: boolean;
  warning: string | null;
}

export interface Shard {
  shard: number;
  epoch: number;
  owner: number | null;
  node: string | null;
  expires_at: string | null;
}

export interface Shards {
  items: Array<Shard>;
}

export interface SkipAnswer {
  job: Job;
  skipped: string;
}

export type State = "cancelled" | "claimed" | "dead" | "expired" | "queued" | "running" | "skipped" | "succeeded";

export interface StepView {
  kind: string;
  words: string;
  from: string | null;
  to: string | null;
}

export interface Summary {
  now: string;
  running: Count;
  due: Due;
  window_s: number;
  ended: Ended;
  late: Lateness;
  dead_24h: Count;
  recurring_jobs: Count;
  paused_jobs: Count;
  needs_you: Array<Need>;
}

export interface Tenant {
  name: string;
  state: TenantState;
  state_reason: string | null;
  weight: number;
  limits: Limits;
  limits_in_force: Limits;
  created_at: string;
  updated_at: string;
}

export interface TenantPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<Tenant>;
}

export interface TenantPatch {
  weight?: number;
  limits?: LimitsPatch;
}

export type TenantState = "active" | "suspended";

export interface Ticket {
  ticket: string;
  expires_in_s: number;
}

export interface UnopenedSecret {
  tenant: string;
  name: string;
  key_id: string;
  reason: string;
}

export type Verdict = "cancelled" | "failed" | "lost" | "rejected" | "succeeded" | "timed_out";

export interface WebhookSecret {
  secret: string;
  created_at: string;
  expires_at: string | null;
}

export interface WebhookSecrets {
  items: Array<WebhookSecret>;
}
