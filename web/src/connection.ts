/** A connection to a broker as a form holds it, and how it becomes one and back. Pure. */
import type { ConnectionView } from "./types.ts";

/** A kind of broker. The API may know more of them than this page. */
export type Broker = string;

/** What is named when a broker's kind is spoken of, and where it usually listens. */
export const BROKERS: Record<Broker, { words: string; example: string }> = {
  kafka: { words: "Kafka", example: "kafka.example.com:9092" },
  nats: { words: "NATS JetStream", example: "bus.example.com:4222" },
  rabbitmq: { words: "RabbitMQ", example: "rabbit.example.com:5672" },
  redis: { words: "Redis streams", example: "cache.example.com:6379" },
  sqs: { words: "Amazon SQS", example: "sqs.eu-central-1.amazonaws.com" },
  smtp: { words: "Mail (SMTP)", example: "smtp.example.com:587" },
};
export const wordsOf = (kind: Broker) => BROKERS[kind]?.words ?? kind;
/** Which kinds take a token. */
export const TOKENS: Broker[] = ["nats", "sqs"];
/** How a user logs in to Kafka; the first unless it is said. */
export const MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

/** Fields that the form does not show (a client certificate, replicas, …) stay as they were. */
export interface ConnectionDraft {
  kind: Broker;
  /** An address a line. */
  addresses: string;
  tls: boolean;
  /** Names of secrets. */
  ca: string;
  username: string;
  password: string;
  token: string;
  mechanism: string;
  virtualHost: string;
  region: string;
  sender: string;
  createsStreams: boolean;
}

export const FRESH: ConnectionDraft = {
  kind: "nats",
  addresses: "",
  tls: false,
  ca: "",
  username: "",
  password: "",
  token: "",
  mechanism: "PLAIN",
  virtualHost: "/",
  region: "",
  sender: "",
  createsStreams: false,
};

export function draftOf(of: Partial<ConnectionView>): ConnectionDraft {
  return {
    kind: of.kind ?? FRESH.kind,
    addresses: (of.addresses ?? []).join("\n"),
    tls: Boolean(of.tls),
    ca: of.tls?.ca?.secret ?? "",
    username: of.username ?? "",
    password: of.password?.secret ?? "",
    token: of.token?.secret ?? "",
    mechanism: of.mechanism ?? FRESH.mechanism,
    virtualHost: of.virtual_host ?? FRESH.virtualHost,
    region: of.region ?? "",
    sender: of.sender ?? "",
    createsStreams: of.creates_streams ?? false,
  };
}

/** The body of a PUT. `before` is the connection that is replaced, for what the form does not show. */
export function bodyOf(
  draft: ConnectionDraft,
  before: Partial<ConnectionView> = {},
): Record<string, unknown> {
  const secret = (name: string) => (name.trim() ? { secret: name.trim() } : null);
  const { client_certificate = null, server_name = null } = before.tls ?? {};
  const same = before.kind === draft.kind;
  return filled({
    kind: draft.kind,
    addresses: draft.addresses.split(/[\s,]+/).filter(Boolean),
    tls: draft.tls ? filled({ ca: secret(draft.ca), client_certificate, server_name }) : null,
    username: draft.username.trim() || null,
    password: secret(draft.password),
    in_flight: before.in_flight ?? null,
    token: TOKENS.includes(draft.kind) ? secret(draft.token) : null,
    mechanism: mechanismOf(draft),
    region: draft.kind === "sqs" ? draft.region.trim() || null : null,
    sender: draft.kind === "smtp" ? draft.sender.trim() || null : null,
    virtual_host: draft.kind === "rabbitmq" ? draft.virtualHost || FRESH.virtualHost : null,
    creates_streams: draft.kind === "redis" && draft.createsStreams ? true : null,
    replicas: draft.kind === "redis" && same ? (before.replicas ?? null) : null,
  });
}

/** What the connection says of it; nothing where it would say what holds anyhow. */
export const mechanismOf = (draft: ConnectionDraft) =>
  draft.kind === "kafka" && draft.mechanism !== FRESH.mechanism ? draft.mechanism : null;

const filled = (of: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(of).filter(([, value]) => value !== null));

/** Whether it goes by TLS, and who it logs in as, in words. */
export function accessOf(of: Partial<ConnectionView>): string {
  const who = of.token ? "a token" : (of.username ?? (of.password ? "a password" : null));
  return [of.tls ? "TLS" : "no TLS", who].filter(Boolean).join(", ");
}
