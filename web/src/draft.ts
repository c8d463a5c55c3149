/** What the form holds, and how it becomes a job and back. Pure. */
import type { Broker } from "./connection.ts";
import { type Auth, authOf, headersOf, linesOf, textOf } from "./credentials.ts";
import type { Job } from "./types.ts";

export type When = "every" | "cron" | "at" | "in" | "several";

/** What the form can write; it leaves `other` targets as they are. */
export type Kind = "http" | "task" | "message" | "noop" | "other";
const WRITTEN: string[] = ["http", "task", "noop"] satisfies Kind[];
/** What each broker calls the place that a message goes to. */
export const PLACES: Record<Broker, string> = {
  kafka: "topic",
  nats: "subject",
  rabbitmq: "routing_key",
  redis: "stream",
  sqs: "queue_url",
};
export const placeOf = (broker: Broker) => PLACES[broker] ?? "subject";

export interface Draft {
  name: string;
  description: string;
  when: When;
  every: string;
  cron: string;
  at: string;
  in: string;
  /** Several rules, as the API takes them. */
  several: string;
  zone: string;
  dst: string;
  jitter: string;
  kind: Kind;
  method: string;
  url: string;
  body: string;
  /** A header a line. */
  headers: string;
  /** How the call says who calls: `none`, `bearer`, `basic`, or a kind that the form does not write. */
  auth: string;
  username: string;
  credential: string;
  task: string;
  /** What the task is given: JSON, or text. */
  payload: string;
  /** The broker's connection, its kind, and where in it the message goes; beside it RabbitMQ's exchange and
   * Kafka's key. */
  connection: string;
  broker: Broker;
  place: string;
  exchange: string;
  key: string;
  queue: string;
  tags: string;
  attempts: string;
  overlap: string;
  misfire: string;
  timeout: string;
  priority: string;
  pauseAfter: string;
  /** The wait before the first retry. */
  backoff: string;
  startWithin: string;
  /** A key that jobs share, with a cap on those at once and on the starts in a while. */
  limitKey: string;
  limitParallel: string;
  limitRate: string;
  limitPer: string;
}

export const local = Intl.DateTimeFormat().resolvedOptions().timeZone;
export const FRESH: Draft = {
  name: "",
  description: "",
  when: "cron",
  every: "5m",
  cron: "0 9 * * *",
  at: "",
  in: "10m",
  several: '[{"cron": "0 9 * * MON-FRI"}, {"cron": "0 12 * * SAT"}]',
  zone: local,
  dst: "cron",
  jitter: "",
  kind: "http",
  method: "POST",
  url: "",
  body: "",
  headers: "",
  auth: "none",
  username: "",
  credential: "",
  task: "",
  payload: "",
  connection: "",
  broker: "nats",
  place: "",
  exchange: "",
  key: "",
  queue: "default",
  tags: "",
  attempts: "5",
  overlap: "allow",
  misfire: "fire_once",
  timeout: "",
  priority: "5",
  pauseAfter: "",
  backoff: "",
  startWithin: "",
  limitKey: "",
  limitParallel: "",
  limitRate: "",
  limitPer: "",
};

export function scheduleOf(draft: Draft): unknown {
  const jitter = draft.jitter ? { jitter: draft.jitter } : {};
  switch (draft.when) {
    case "every":
      return { every: draft.every, ...jitter };
    case "in":
      return { in: draft.in };
    case "at":
      return { at: draft.at ? new Date(draft.at).toISOString() : "" };
    case "several":
      return parsed(draft.several);
    case "cron":
      return { cron: draft.cron, time_zone: draft.zone || "UTC", dst: draft.dst, ...jitter };
  }
}

export function bodyOf(draft: Draft): Record<string, unknown> & { target: unknown } {
  return {
    name: draft.name || null,
    description: draft.description.trim() || null,
    schedule: scheduleOf(draft),
    target: targetOf(draft),
    queue: draft.queue || "default",
    tags: draft.tags
      .split(",")
      .map((tag) => tag.trim())
      .filter(Boolean),
    retry: {
      max_attempts: Number(draft.attempts) || 1,
      ...(draft.backoff.trim() ? { initial_backoff: draft.backoff.trim() } : {}),
    },
    overlap: draft.overlap,
    misfire: draft.misfire,
    timeout: draft.timeout.trim() || null,
    priority: Number(draft.priority || FRESH.priority),
    pause_after: Number(draft.pauseAfter) || null,
    start_within: draft.startWithin.trim() || null,
    limit: limitOf(draft),
  };
}

function limitOf({ limitKey, limitParallel, limitRate, limitPer }: Draft): unknown {
  if (!limitKey.trim()) return null;
  return {
    key: limitKey.trim(),
    ...(limitParallel ? { max_parallel: Number(limitParallel) } : {}),
    ...(limitRate ? { rate: Number(limitRate), ...(limitPer.trim() ? { per: limitPer.trim() } : {}) } : {}),
  };
}

function targetOf(draft: Draft): unknown {
  switch (draft.kind) {
    case "other":
      return null;
    case "noop":
      return { kind: "noop" };
    case "task":
      return { kind: "task", task: draft.task, payload: given(draft.payload) };
    case "message":
      return {
        kind: draft.broker,
        connection: draft.connection,
        [placeOf(draft.broker)]: draft.place,
        ...(draft.broker === "rabbitmq" ? { exchange: draft.exchange } : {}),
        ...(draft.broker === "kafka" ? { key: draft.key || null } : {}),
        ...bodyField(draft.body),
      };
    case "http":
      return {
        kind: "http",
        method: draft.method,
        url: draft.url,
        ...bodyField(draft.body),
        headers: headersOf(draft.headers),
        ...authOf(draft.auth, draft.username, draft.credential),
      };
  }
}

/** The job that the form creates: without what it leaves empty. */
export function newOf(draft: Draft): Record<string, unknown> {
  const body = bodyOf(draft);
  const empty = (value: unknown) => value === null || (isObject(value) && !Object.keys(value).length);
  const target = Object.entries(body.target as object).filter(
    ([name, value]) => name === "body" || !empty(value),
  );
  const said = Object.entries(body).filter(([, value]) => value !== null);
  return { ...Object.fromEntries(said), target: Object.fromEntries(target) };
}

/** The same job, as options of `tocsin jobs create`. */
export function optionsOf(draft: Draft): string[] {
  const option = (name: string, value: string, unless = "") =>
    value && value !== unless ? [`--${name}`, value] : [];
  const when =
    draft.when === "cron"
      ? [
          "--cron",
          draft.cron,
          ...option("time-zone", draft.zone, "UTC"),
          ...option("dst", draft.dst, FRESH.dst),
        ]
      : draft.when === "at"
        ? option("at", draft.at && new Date(draft.at).toISOString())
        : option(draft.when, draft[draft.when]);
  const what: Record<Kind, () => string[]> = {
    other: () => [],
    noop: () => ["--noop"],
    task: () => ["--task", draft.task, ...option("payload", draft.payload)],
    message: () => ["--target", JSON.stringify(newOf(draft).target)],
    http: () => [
      "--target-url",
      draft.url,
      ...option("method", draft.method, "POST"),
      ...option("body", draft.body),
      ...credentialsOf(draft),
    ],
  };
  return [
    ...option("name", draft.name),
    ...option("description", draft.description.trim()),
    ...when,
    ...option("jitter", draft.jitter),
    ...what[draft.kind](),
    ...option("queue", draft.queue, "default"),
    ...draft.tags.split(",").flatMap((tag) => option("tag", tag.trim())),
    ...option("max-attempts", draft.attempts, FRESH.attempts),
    ...option("overlap", draft.overlap, FRESH.overlap),
    ...option("misfire", draft.misfire, FRESH.misfire),
    ...option("timeout", draft.timeout),
    ...option("priority", draft.priority, FRESH.priority),
    ...option("pause-after", draft.pauseAfter),
    ...option("initial-backoff", draft.backoff.trim()),
    ...option("start-within", draft.startWithin.trim()),
    ...(limitOf(draft) ? limitOptions(draft) : []),
  ];
}

const limitOptions = ({ limitKey, limitParallel, limitRate, limitPer }: Draft) => [
  "--limit-key",
  limitKey.trim(),
  ...(limitParallel ? ["--limit-parallel", limitParallel] : []),
  ...(limitRate ? ["--limit-rate", limitRate] : []),
  ...(limitRate && limitPer.trim() ? ["--limit-per", limitPer.trim()] : []),
];

/** Whether a header's value lies in a secret: no option of the command says that. */
export const headersNameSecrets = (draft: Draft) =>
  Object.values(headersOf(draft.headers)).some((value) => typeof value !== "string");

function credentialsOf(draft: Draft): string[] {
  const headers = Object.entries(headersOf(draft.headers)).flatMap(([name, value]) => [
    "--header",
    `${name}:${textOf(value)}`,
  ]);
  const { auth } = authOf(draft.auth, draft.username, draft.credential);
  return [...headers, ...(auth ? ["--auth", JSON.stringify(auth)] : [])];
}

/** The cron expression that fires at the minute of an instant instead, where it names one hour and one minute. */
export function moved(draft: Draft, at: number): string | null {
  const fields = draft.cron.trim().split(/\s+/);
  if (draft.when !== "cron" || fields.length !== 5 || !/^\d+ \d+$/.test(`${fields[0]} ${fields[1]}`))
    return null;
  const parts = new Intl.DateTimeFormat("en-GB", {
    timeZone: draft.zone || "UTC",
    hourCycle: "h23",
    hour: "numeric",
    minute: "numeric",
  }).formatToParts(at);
  const of = (type: string) => Number(parts.find((part) => part.type === type)?.value);
  return [of("minute"), of("hour"), ...fields.slice(2)].join(" ");
}

const bodyField = (text: string): { body?: unknown } => (text.trim() ? { body: parsed(text) } : {});
const given = (text: string): unknown => (text.trim() ? parsed(text) : null);

/** JSON if it is some, else the text itself. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Only what was changed, so that what this form does not show stays as it is. */
export function changesOf(
  job: Job,
  body: Record<string, unknown> & { target: unknown },
): Record<string, unknown> {
  const before = bodyOf(draftOf(job));
  const changed = Object.entries(body).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  );
  const changes = Object.fromEntries(changed);
  if (isObject(changes.schedule)) changes.schedule = { ...bounds(job), ...changes.schedule };
  if (changes.retry) changes.retry = { ...job.retry, ...(changes.retry as object) };
  if (changes.misfire) changes.misfire = { ...job.misfire, policy: changes.misfire };
  if (changes.target && job.target.kind === (changes.target as { kind: string }).kind)
    changes.target = { ...job.target, ...(changes.target as object) };
  return changes;
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** What a schedule says beside its rule, and the form does not show. */
function bounds(job: Job): Record<string, unknown> {
  const { starts_at, ends_at, max_fires, exclude } = job.schedule;
  return Object.fromEntries(
    Object.entries({ starts_at, ends_at, max_fires, exclude }).filter(([, value]) => value),
  );
}

export function draftOf(job: Job): Draft {
  const schedule = job.schedule as unknown as Record<string, string | undefined>;
  const target = job.target as {
    kind: string;
    task?: string;
    payload?: unknown;
    method?: string;
    url?: string;
    body?: unknown;
    headers?: Record<string, unknown>;
    auth?: Auth;
    connection?: string;
    exchange?: string;
    key?: string | null;
  } & Record<string, unknown>;
  const broker = target.kind in PLACES ? target.kind : null;
  const when: When = schedule.any_of ? "several" : schedule.cron ? "cron" : schedule.every ? "every" : "at";
  return {
    ...FRESH,
    name: job.name ?? "",
    when,
    several: schedule.any_of ? JSON.stringify(job.schedule.any_of, null, 1) : FRESH.several,
    every: schedule.every ?? FRESH.every,
    cron: schedule.cron ?? FRESH.cron,
    at: schedule.at ? localInput(schedule.at) : "",
    zone: schedule.time_zone ?? "UTC",
    dst: schedule.dst ?? "cron",
    jitter: schedule.jitter ?? "",
    kind: broker ? "message" : WRITTEN.includes(target.kind) ? (target.kind as Kind) : "other",
    method: target.method ?? "POST",
    url: target.url ?? "",
    body: written(target.body),
    task: target.task ?? "",
    payload: written(target.payload),
    connection: target.connection ?? "",
    broker: broker ?? FRESH.broker,
    place: broker ? String(target[placeOf(broker)] ?? "") : "",
    exchange: target.exchange ?? "",
    key: target.key ?? "",
    headers: linesOf(target.headers ?? {}),
    auth: target.auth?.kind ?? "none",
    username: textOf(target.auth?.username),
    credential: textOf(target.auth?.token ?? target.auth?.password),
    queue: job.queue,
    tags: job.tags.join(", "),
    attempts: String(job.retry.max_attempts),
    overlap: job.overlap,
    misfire: job.misfire.policy,
    timeout: span(job.timeout),
    priority: String(job.priority ?? FRESH.priority),
    pauseAfter: String(job.pause_after ?? ""),
    description: job.description ?? "",
    backoff: span(job.retry.initial_backoff),
    startWithin: span(job.start_within),
    limitKey: job.limit?.key ?? "",
    limitParallel: String(job.limit?.max_parallel ?? ""),
    limitRate: String(job.limit?.rate ?? ""),
    limitPer: job.limit?.rate ? span(job.limit.per) : "",
  };
}

/** A length of time as a field shows it: the API writes some as seconds. */
const span = (value: string | number | null | undefined) =>
  typeof value === "number" ? `${value}s` : (value ?? "");

/** A value as a field shows it: text as it is, anything else as JSON. Text that reads as JSON stays JSON. */
function written(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" && parsed(value) === value ? value : JSON.stringify(value, null, 2);
}

function localInput(text: string): string {
  const at = new Date(text);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
