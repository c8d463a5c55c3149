// Written by web/api_types.py from the OpenAPI document. Do not edit.
/* biome-ignore-all format: written by a program */

export interface AlertChannel {
  kind: "json" | "mail" | "slack" | "webhook";
  url: string | null;
  path_secret: SecretRef | null;
  method: "POST" | "PUT" | "GET";
  headers: Record<string, unknown>;
  body: unknown;
  connection: string | null;
  to: Array<string>;
}

export interface AlertChannelTest {
  job: string;
}

export interface AlertChannelView {
  kind: "json" | "mail" | "slack" | "webhook";
  url: string | null;
  path_secret: SecretRef | null;
  method: "POST" | "PUT" | "GET";
  headers: Record<string, unknown>;
  body: unknown;
  connection: string | null;
  to: Array<string>;
  name: string;
  version: number;
  created_at: string;
  updated_at: string;
}

export interface AlertChannels {
  broken: Array<Broken>;
  items: Array<AlertChannelView>;
}

export interface AlertRule {
  watch: DeadLetters | FailuresInARow | DidNotRun | LateFires | Unserved | PausedQueue | HostAtRest | PendingJobs | ClockTrouble | PartitionTrouble | DiskTrouble | ArchiveFailing | LeaseChurn | DeadMansSwitch;
  channels: Array<string>;
  scope: "fleet" | "tenant";
  lasting: string | number;
  repeat: string | unknown;
  quiet: QuietTimes | null;
  enabled: boolean;
}

export interface AlertRuleView {
  watch: DeadLetters | FailuresInARow | DidNotRun | LateFires | Unserved | PausedQueue | HostAtRest | PendingJobs | ClockTrouble | PartitionTrouble | DiskTrouble | ArchiveFailing | LeaseChurn | DeadMansSwitch;
  channels: Array<string>;
  scope: "fleet" | "tenant";
  lasting: string | number;
  repeat: string | unknown;
  quiet: QuietTimes | null;
  enabled: boolean;
  name: string;
  version: number;
  created_at: string;
  updated_at: string;
  beat_at: string | null;
  withheld: string | null;
}

export interface AlertRules {
  broken: Array<Broken>;
  items: Array<AlertRuleView>;
}

export interface AlertView {
  rule: string;
  group: string;
  state: "pending" | "firing" | "resolved";
  since: string;
  seen_at: string;
  resolved_at: string | null;
  told: string | null;
  told_at: string | null;
  summary: string;
  detail: Record<string, unknown>;
}

export interface Alerts {
  broken: Array<Broken>;
  items: Array<AlertView>;
}

export interface ArchiveFailing {
  kind: "archive_failing";
  at_least: number;
}

export interface ArchivePage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<ArchiveView>;
}

export interface ArchiveView {
  table: string;
  day: string;
  round: number;
  part: number;
  state: string;
  rows: number | null;
  bytes: number | null;
  object: string | null;
  sha256: string | null;
  content: string | null;
  edition: number;
  failures: number;
  trouble: string | null;
  changed_at: string;
}

export interface Ask {
  seq: number;
  want: number;
  wait_ms: number;
  settle: Array<TaskSettlement>;
}

export interface AttemptView {
  number: number;
  verdict: Verdict | null;
  started_at: string | null;
  finished_at: string | null;
  duration_ms: number | null;
  node: number | null;
  error: string | null;
  detail: Record<string, unknown> | null;
  worker: string | null;
  result: unknown;
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
  via: string | null;
}

export interface AuditPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<AuditEntry>;
}

export interface Backfill {
  id: number;
  job_id: string;
  job_name: string | null;
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

export interface Band {
  at: string;
  counts: Record<string, unknown>;
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

export interface BoundLogin {
  login: string;
  tenant: string;
  created_at: string;
}

export interface BoundLogins {
  broken: Array<Broken>;
  items: Array<BoundLogin>;
}

export interface Brake {
  share: number;
  of: number;
}

export interface Broken {
  id: string;
  detail: string;
}

export interface BrokerTls {
  ca: SecretRef | null;
  client_certificate: SecretRef | null;
  server_name: string | null;
}

export interface Calendar {
  name: string;
  ranges: Array<CalendarRange>;
  updated_at: string;
}

export interface CalendarDay {
  ran: number;
  dead: number;
  skipped: Record<string, unknown>;
  cancelled: number;
  expired: number;
  expected: number;
  backfilled: number;
  date: string;
  begins: string;
  hour_count: number;
  hours: Array<CalendarHour> | null;
}

export interface CalendarHour {
  ran: number;
  dead: number;
  skipped: Record<string, unknown>;
  cancelled: number;
  expired: number;
  expected: number;
  backfilled: number;
  at: string;
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

export interface Cancel {
  reason: string | null;
  dry_run: boolean;
}

export interface CancelAnswer {
  job: Job | null;
  cancelled: number;
  asked_to_stop: number;
  not_retried: number;
  dry_run: boolean;
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
  discarded_at: string | null;
  archived: boolean;
  progress: Progress | null;
  attempts: Array<AttemptView>;
  answer: CancelResult;
  final_state: State | null;
}

export interface ChangedFires {
  gained: number;
  lost: number;
  moved: number;
  kept: number;
  first_gained: Array<string>;
  first_lost: Array<string>;
  first_moved: Array<MovedFire>;
  until: string;
}

export interface Check {
  name: string;
  ok: boolean;
  words: string;
  hint: string | null;
}

export interface ClaimName {
  id: string;
  token: string;
}

export interface ClientTls {
  client_certificate: SecretRef;
}

export interface ClockTrouble {
  kind: "clock";
  window: string | number;
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

export interface ConnectionBody {
  kind: "kafka" | "nats" | "rabbitmq" | "redis" | "sqs" | "smtp";
  addresses: Array<string>;
  tls: BrokerTls | null;
  username: string | null;
  password: SecretRef | null;
  token: SecretRef | null;
  mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
  virtual_host: string;
  region: string | null;
  sender: string | null;
  creates_streams: boolean;
  replicas: number;
  in_flight: number;
  name: string | null;
}

export interface ConnectionTest {
  reached: boolean;
  took_ms: number;
  error: string | null;
}

export interface ConnectionView {
  kind: "kafka" | "nats" | "rabbitmq" | "redis" | "sqs" | "smtp";
  addresses: Array<string>;
  tls: BrokerTls | null;
  username: string | null;
  password: SecretRef | null;
  token: SecretRef | null;
  mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
  virtual_host: string;
  region: string | null;
  sender: string | null;
  creates_streams: boolean;
  replicas: number;
  in_flight: number;
  name: string;
  version: number;
  created_at: string;
  updated_at: string;
}

export interface Connections {
  broken: Array<Broken>;
  items: Array<ConnectionView>;
}

export interface Count {
  count: number;
  capped: boolean;
}

export interface DatabaseView {
  version: string;
  size_bytes: number;
  connections: number;
  max_connections: number;
  oldest_transaction_s: number | null;
  oldest_by: string | null;
  transactions_a_second: number | null;
  migration: number;
  days_of_history: number;
  row_security: string | null;
  tables: Array<TableView>;
  standing: StandingView;
}

export interface DeadLetters {
  kind: "dead_letters";
  window: string | number;
  at_least: number;
  queue: string | null;
}

export interface DeadMansSwitch {
  kind: "dead_mans_switch";
  grace: string | number;
}

export interface Declaration {
  jobs: Array<JobBody>;
  revision: number | null;
  dry_run: boolean;
  update: boolean;
  prune: boolean;
  adopt: boolean;
  days: number;
}

export interface Declared {
  owner: string;
  revision: number | null;
  applied: boolean;
  superseded: boolean;
  dry_run: boolean;
  counts: Record<string, unknown>;
  jobs: Array<DeclaredJob>;
}

export interface DeclaredJob {
  name: string;
  action: "changed" | "created" | "differs" | "refused" | "removed" | "revived" | "unchanged" | "undeclared";
  id: string | null;
  paused: boolean;
  fields: Array<FieldChange>;
  fires: ChangedFires | null;
  problem: Problem | null;
}

export interface Diagnosis {
  now: string;
  healthy: boolean;
  looked_for: number;
  findings: Array<FindingView>;
}

export interface DidNotRun {
  kind: "did_not_run";
  grace: string | number;
  window: string | number;
}

export interface DiskTrouble {
  kind: "disk";
  free: number;
}

export interface Disowned {
  released: number;
}

export type Do = "cancel" | "cancel_queued" | "delete" | "discard" | "pause" | "rerun" | "resume" | "retry" | "run";

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
  capped: boolean;
  jobs: number;
  last_hour: number;
  hourly: Array<number>;
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
  discarded_at: string | null;
  archived: boolean;
  progress: Progress | null;
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

export interface FailuresInARow {
  kind: "failures_in_a_row";
  number: number;
  window: string | number;
}

export interface FieldChange {
  field: string;
  before: unknown;
  after: unknown;
}

export interface FindingView {
  code: string;
  severity: "late" | "soon" | "wrong";
  words: string;
  evidence: Array<string>;
  fix: string;
}

export interface Fit {
  peak: number;
  at: string | null;
  joins: number;
  joins_peak: boolean;
  free_slots: Array<string>;
}

export interface FitRequest {
  schedule: string | Array<string | Schedule> | Schedule;
}

export interface Forecast {
  step_s: number;
  at: Array<string>;
  expected: Array<number>;
  one_offs: Array<number>;
  capacity: number | null;
  peaks: Array<Peak>;
  free: Array<string>;
  capped: boolean;
  computed_at: string | null;
  age_s: number | null;
}

export interface FreshKey {
  key: Key;
  text: string;
}

export interface Given {
  claims: Array<TaskClaim>;
  settled: Array<Settled>;
  stop: Array<Stop>;
  drain: boolean;
  now: string;
}

export interface Gone {
  worker: string;
}

export interface GrpcTarget {
  kind: "grpc";
  address: string;
  method: string;
  body: unknown;
  descriptors: string | null;
  metadata: Record<string, unknown>;
  plaintext: boolean;
  tls: GrpcTls | null;
  timeout: string | number | null;
  retry_on: Array<"CANCELLED" | "UNKNOWN" | "INVALID_ARGUMENT" | "DEADLINE_EXCEEDED" | "NOT_FOUND" | "ALREADY_EXISTS" | "PERMISSION_DENIED" | "RESOURCE_EXHAUSTED" | "FAILED_PRECONDITION" | "ABORTED" | "OUT_OF_RANGE" | "UNIMPLEMENTED" | "INTERNAL" | "UNAVAILABLE" | "DATA_LOSS" | "UNAUTHENTICATED">;
  template: boolean;
}

export interface GrpcTls {
  ca: string | null;
  client_certificate: SecretRef | null;
}

export interface Health {
  status: string;
  detail: string | null;
}

export interface Heard {
  lost: Array<string>;
  stop: Array<Stop>;
  deadline_at: string;
  drain: boolean;
  now: string;
}

export interface Heartbeat {
  held: Array<HeldClaim>;
  running: number | null;
}

export interface HeldClaim {
  id: string;
  token: string;
  progress: Progress | null;
  logs: Array<LogLine>;
}

export interface HostAtRest {
  kind: "host_at_rest";
  longer_than: string | number;
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
  template: boolean;
  path_secret: SecretRef | null;
  idempotency_key: string | null;
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
  target: HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget;
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
  pause_after: number | null;
  next_fire_at: string | null;
  fire_count: number;
  managed_by: string | null;
  version: number;
  created_at: string;
  updated_at: string;
  note: string | null;
  outcome?: "created" | "existed" | "moved";
  due_at?: string;
  schedule_words?: string;
  recent?: Array<RecentFire>;
  last_fire_at?: string | null;
  last_state?: State | null;
  last_error?: string | null;
  consecutive_failures?: number;
}

export interface JobBody {
  schedule: string | Array<string | Schedule> | Schedule;
  target: HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget;
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
  pause_after: number | null;
}

export interface JobCalendar {
  zone: string;
  covers_from: string;
  days: Array<CalendarDay>;
}

export interface JobPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<Job>;
}

export interface JobPatch {
  schedule?: string | Array<string | Schedule> | Schedule;
  target?: HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget;
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
  pause_after?: number | null;
}

export interface KafkaTarget {
  kind: "kafka";
  connection: string;
  body: unknown;
  template: boolean;
  topic: string;
  key: string | null;
  headers: Record<string, unknown>;
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

export interface LagMap {
  step_s: number;
  bounds_ms: Array<number>;
  at: Array<string>;
  counts: Array<Array<number>>;
  behind_s: number;
}

export interface Lane {
  job: string;
  name: string | null;
  queue: string;
  tags: Array<string>;
  fires: Array<LaneFire> | null;
  bands: Array<Band> | null;
  covers_from: string;
  expected_to: string;
}

export interface LaneFire {
  at: string;
  state: "cancelled" | "dead" | "expected" | "expired" | "queued" | "running" | "skipped" | "succeeded";
  late_ms: number | null;
  run_ms: number | null;
  reason: string | null;
  until: string | null;
  count: number;
}

export interface LateFires {
  kind: "lag";
  within: string | number;
  share: number;
  window: string | number;
  at_least: number;
  queue: string | null;
}

export interface Lateness {
  p50_ms: number | null;
  p99_ms: number | null;
}

export interface LeaseChurn {
  kind: "lease_churn";
  times: number;
  window: string | number;
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
  history_days: number | null;
}

export interface LimitsPatch {
  pending_jobs?: number | null;
  payload_bytes?: number | null;
  min_interval?: string | number | null;
  requests_per_second?: number | null;
  request_burst?: number | null;
  in_flight?: number | null;
  fires_per_second?: number | null;
  history_days?: number | null;
}

export interface LogLine {
  seq: number;
  at: string;
  message: string;
  level: "debug" | "error" | "info" | "warning";
  fields: Record<string, unknown> | null;
}

export interface LogPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<LogView>;
}

export interface LogView {
  attempt: number;
  seq: number;
  at: string;
  level: string;
  message: string;
  fields: Record<string, unknown> | null;
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

export interface MovedFire {
  before: string;
  after: string;
}

export interface NatsTarget {
  kind: "nats";
  connection: string;
  body: unknown;
  template: boolean;
  subject: string;
  stream: string | null;
  headers: Record<string, unknown>;
}

export interface Need {
  kind: "alert" | "dead" | "key" | "late" | "node" | "overdue" | "paused";
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

export interface NewConnection {
  kind: "kafka" | "nats" | "rabbitmq" | "redis" | "sqs" | "smtp";
  addresses: Array<string>;
  tls: BrokerTls | null;
  username: string | null;
  password: SecretRef | null;
  token: SecretRef | null;
  mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
  virtual_host: string;
  region: string | null;
  sender: string | null;
  creates_streams: boolean;
  replicas: number;
  in_flight: number;
  name: string;
}

export interface NewJob {
  schedule: string | Array<string | Schedule> | Schedule;
  target: HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget;
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
  pause_after: number | null;
  idempotency_key: string | null;
  unique: string | null;
  debounce: string | null;
  max_wait: string | number | null;
}

export interface NewKey {
  name: string;
  scopes: Array<Scope>;
  tenant: string | null;
  expires_at: string | null;
  expires_in: string | number | null;
}

export interface NewOperation {
  do: Do;
  of: Of;
  where: OperationFilter | null;
  ids: Array<string> | null;
  reason: string | null;
  pace: string | number;
  steps: Array<number>;
  stop_at: Brake | null;
  dry_run: boolean;
}

export interface NewTenant {
  name: string;
  weight: number;
  limits: LimitsPatch;
}

export interface NewWorker {
  name: string;
  tasks: Array<TaskOffer>;
  app: string | null;
  revision: string | null;
  sdk: string | null;
  protocol: number;
  queues: Array<string>;
  capacity: number;
  lease: string;
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
  queues: Array<string>;
  running: number | null;
  held: number | null;
  saturation: number | null;
  capacity: number | null;
  started_per_s: number | null;
  clock_ms: number | null;
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

export type Of = "dead_letters" | "executions" | "jobs";

export interface Operation {
  id: number;
  do: Do;
  of: Of;
  where: Record<string, unknown> | null;
  state: "cancelled" | "completed" | "paused" | "running";
  state_reason: string | null;
  reason: string | null;
  matched: number;
  gathering: boolean;
  done: number;
  cannot: number;
  left: number;
  under_way: number;
  succeeded: number;
  failed: number;
  step: number;
  steps: Array<number>;
  stop_at: Brake | null;
  pace: string;
  rate: number | null;
  errors: Array<OperationError>;
  by: string;
  created_at: string;
  updated_at: string;
  finished_at: string | null;
}

export interface OperationAnswer {
  operation: Operation | null;
  count: number;
  capped: boolean;
  cannot: Array<Refusal>;
  oldest_at: string | null;
  sample: Array<Thing>;
}

export interface OperationError {
  error: string;
  count: number;
  sample: string;
}

export interface OperationFilter {
  state: string | null;
  queue: string | null;
  kind: "once" | "recurring" | null;
  tags: Array<string>;
  tag_match: "all" | "any" | null;
  name: string | null;
  target: "grpc" | "http" | "kafka" | "nats" | "noop" | "rabbitmq" | "redis" | "script" | "smtp" | "sqs" | "task" | null;
  created_from: string | null;
  created_to: string | null;
  next_fire_from: string | null;
  next_fire_to: string | null;
  job: string | null;
  fire_from: string | null;
  fire_to: string | null;
  min_lag: string | null;
  error: string | null;
  fingerprint: string | null;
}

export interface OperationPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<Operation>;
}

export type Order = "newest_first" | "oldest_first";

export type Overlap = "allow" | "collapse" | "queue" | "replace" | "skip";

export interface Owner {
  owner: string;
  revision: number | null;
  jobs: number;
  declared_at: string;
}

export interface Owners {
  broken: Array<Broken>;
  items: Array<Owner>;
}

export interface PartitionTrouble {
  kind: "partitions";
}

export interface Pause {
  reason: string | null;
  until: string | null;
  dry_run: boolean;
}

export interface PauseAnswer {
  job: Job;
  held: number;
  dry_run: boolean;
}

export interface PauseQueue {
  reason: string | null;
  until: string | null;
}

export interface Paused {
  jobs: Count;
  queues: number;
}

export interface PausedQueue {
  kind: "queue_paused";
  longer_than: string | number;
  queue: string | null;
}

export interface Peak {
  at: string;
  fires: number;
  jobs: Array<PeakJob>;
}

export interface PeakJob {
  id: string;
  name: string | null;
  jobs: number;
  fires: number;
}

export interface PendingJobs {
  kind: "pending_jobs";
  share: number;
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
  code: string;
  field: string | null;
  hint: string | null;
  request_id: string | null;
}

export interface Progress {
  share: number | null;
  note: string | null;
}

export interface Queue {
  name: string;
  tenant: string;
  paused: QueuePause | null;
  due: Due;
  running: Count;
  per_minute: Array<number>;
  workers: number;
  limits: QueueLimits;
}

export interface QueueDepth {
  priority: number;
  tenant: string;
  due: Due;
}

export interface QueueDetail {
  name: string;
  tenant: string;
  paused: QueuePause | null;
  due: Due;
  running: Count;
  per_minute: Array<number>;
  workers: number;
  limits: QueueLimits;
  depth: Array<QueueDepth>;
}

export interface QueueLimits {
  in_flight: number | null;
  fires_per_second: number | null;
}

export interface QueueList {
  broken: Array<Broken>;
  items: Array<Queue>;
}

export interface QueuePause {
  since: string;
  by: string;
  reason: string | null;
  until: string | null;
}

export interface QueuePaused {
  queue: QueueDetail;
  held: number;
}

export interface QueueResumed {
  queue: QueueDetail;
  dry_run: boolean;
  ready: Count;
  missed: Count;
}

export interface QuietTimes {
  begins: string;
  ends: string;
  time_zone: string;
}

export interface RabbitTarget {
  kind: "rabbitmq";
  connection: string;
  body: unknown;
  template: boolean;
  exchange: string;
  routing_key: string;
  headers: Record<string, unknown>;
}

export interface Reason {
  reason: string | null;
}

export interface RebuiltHour {
  hour: string;
}

export interface RecentFire {
  id: string;
  fire_at: string;
  state: State;
  late_ms: number | null;
  run_ms: number | null;
  reason: string | null;
}

export interface RedisTarget {
  kind: "redis";
  connection: string;
  body: unknown;
  template: boolean;
  stream: string;
  fields: Record<string, unknown>;
  max_length: number | null;
}

export interface Refusal {
  reason: string;
  count: number;
}

export interface Registered {
  worker: string;
  lease_ms: number;
  heartbeat_ms: number;
  wait_max_ms: number;
  batch_max: number;
  now: string;
}

export interface Release {
  claims: Array<ClaimName>;
}

export interface Released {
  released: number;
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
  misfire: MisfirePolicy | Misfire | null;
}

export interface ResumeAnswer {
  job: Job;
  dry_run: boolean;
  fired: number;
  skipped: number;
  fire_times: Array<string>;
}

export interface ResumeQueue {
  dry_run: boolean;
}

export interface Retry {
  max_attempts: number;
  initial_backoff: string | number;
  max_backoff: string | number;
  multiplier: number;
  jitter: number;
  on: Array<number | string>;
  max_age: string | number | null;
}

export interface RetryView {
  max_attempts: number;
  initial_backoff: string | number;
  max_backoff: string | number;
  multiplier: number;
  jitter: number;
  on: Array<number | string>;
  max_age: string | number | null;
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

export interface ScriptLimits {
  time: string | number;
  memory: string | number;
  processes: number;
  output: string | number;
  disk: string | number;
  network: boolean;
}

export interface ScriptTarget {
  kind: "script";
  interpreter: string;
  source: string;
  args: Array<string>;
  env: Record<string, unknown>;
  stdin: unknown;
  limits: ScriptLimits;
}

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
  at: Array<string>;
  series: Array<SeriesLine>;
  total: SeriesLine;
  behind_s: number;
  covers_from: string;
}

export interface SeriesLine {
  key: string;
  fires: Array<number>;
  p50_ms: Array<number | null>;
  p99_ms: Array<number | null>;
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

export interface SettingView {
  name: string;
  value: string | null;
  default: boolean;
}

export interface Settled {
  id: string;
  status: "lost" | "ok" | "refused";
  problem: string | null;
}

export interface SettledAll {
  settled: Array<Settled>;
}

export interface Settlements {
  settle: Array<TaskSettlement>;
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

export interface SmtpTarget {
  kind: "smtp";
  connection: string;
  body: unknown;
  template: boolean;
  to: Array<string>;
  subject: string;
}

export interface SqsTarget {
  kind: "sqs";
  connection: string;
  body: unknown;
  template: boolean;
  queue_url: string;
  group: string | null;
  attributes: Record<string, unknown>;
}

export interface StandingView {
  kind: "alone" | "asynchronous" | "synchronous" | "unknown" | "waiting";
  words: string;
  standbys: number;
  in_step: number;
  behind_bytes: number | null;
  behind_s: number | null;
}

export type State = "cancelled" | "claimed" | "dead" | "expired" | "queued" | "running" | "skipped" | "succeeded";

export interface StepView {
  kind: string;
  words: string;
  from: string | null;
  to: string | null;
  link: string | null;
}

export interface Stop {
  id: string;
  reason: string;
}

export interface Summary {
  now: string;
  running: Count;
  held: number | null;
  capacity: number | null;
  due: Due;
  ended_1h: Ended;
  late_1h: Lateness;
  on_time_1h: number | null;
  dead_24h: Count;
  recurring_jobs: Count;
  paused: Paused;
  needs_you: Array<Need>;
}

export interface System {
  now: string;
  version: string;
  versions: Record<string, unknown>;
  roles: Record<string, unknown>;
  database: DatabaseView;
  checks: Array<Check>;
  settings: Array<SettingView>;
}

export interface TableView {
  name: string;
  size_bytes: number;
  live_rows: number;
  dead_rows: number;
}

export interface TallyHour {
  hour: string;
}

export interface TargetTrial {
  target: HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget;
  name: string | null;
  timeout: string | number | null;
}

export interface TaskClaim {
  id: string;
  token: string;
  task: string;
  payload: unknown;
  attempt: number;
  fire_at: string;
  started_at: string;
  timeout_ms: number;
  deadline_at: string;
  idempotency_key: string;
  traceparent: string;
  queue: string;
}

export interface TaskError {
  kind: string;
  message: string;
  trace: string | null;
}

export interface TaskOffer {
  name: string;
}

export interface TaskSettlement {
  id: string;
  token: string;
  verdict: "cancelled" | "failed" | "postponed" | "rejected" | "skipped" | "succeeded" | "timed_out";
  result: unknown;
  error: TaskError | null;
  reason: string | null;
  retry_after_ms: number | null;
  logs: Array<LogLine>;
  stray: boolean;
}

export interface TaskTarget {
  kind: "task";
  task: string;
  payload: unknown;
  trace: string | null;
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
  deleted_at: string | null;
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

export interface Thing {
  id: string;
  name: string | null;
  state: string;
}

export interface Ticket {
  ticket: string;
  expires_in_s: number;
}

export interface Timeline {
  broken: Array<Broken>;
  next_cursor: string | null;
  now: string;
  step_s: number;
  lanes: Array<Lane>;
}

export interface TrialAnswer {
  called: boolean;
  verdict: Verdict | null;
  error: string | null;
  detail: Record<string, unknown> | null;
  duration_ms: number;
  execution: string;
}

export interface UnopenedSecret {
  tenant: string;
  name: string;
  key_id: string;
  reason: string;
}

export interface Unserved {
  kind: "unserved";
  waiting: string | number;
}

export type Verdict = "cancelled" | "failed" | "lost" | "rejected" | "skipped" | "succeeded" | "timed_out";

export interface WebhookSecret {
  secret: string;
  created_at: string;
  expires_at: string | null;
}

export interface WebhookSecrets {
  items: Array<WebhookSecret>;
}

export interface Worker {
  id: string;
  name: string;
  app: string | null;
  revision: string | null;
  sdk: string | null;
  state: "active" | "draining" | "gone";
  queues: Array<string>;
  tasks: Array<string>;
  capacity: number;
  running: number;
  lease_ms: number;
  started_at: string;
  seen_at: string;
}

export interface WorkerPage {
  broken: Array<Broken>;
  next_cursor: string | null;
  items: Array<Worker>;
}
