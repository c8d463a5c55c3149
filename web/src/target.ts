/** A job's target in a line, and what it gives to the callee. Pure. */
import type { Job } from "./types.ts";

export type Target = Job["target"];

export function whatItDoes(target: Target): string {
  switch (target.kind) {
    case "http":
      return `${target.method ?? "POST"} ${target.url}`;
    case "task":
      return `task ${target.task}`;
    case "kafka":
      return `message to ${target.topic} (Kafka, ${target.connection})`;
    case "nats":
      return `message to ${target.subject} (NATS, ${target.connection})`;
    case "rabbitmq":
      return `message to ${target.exchange || "the default exchange"}, ${target.routing_key} (RabbitMQ, ${target.connection})`;
    case "redis":
      return `message to ${target.stream} (Redis, ${target.connection})`;
    case "sqs":
      return `message to ${target.queue_url} (SQS, ${target.connection})`;
    case "smtp":
      return `mail to ${target.to.join(", ")}: ${target.subject} (${target.connection})`;
    case "grpc":
      return `gRPC ${target.method} of ${target.address}`;
    case "script":
      return `${target.interpreter} script, ${target.source.split("\n").length} lines`;
    case "noop":
      return "nothing (noop)";
    default:
      return (target as { kind: string }).kind; // of a newer version
  }
}

/** What is sent or given, if anything is: a body, a payload, a script's input. */
export function givenBy(target: Target): unknown {
  const { body, payload, stdin } = target as { body?: unknown; payload?: unknown; stdin?: unknown };
  return body ?? payload ?? stdin ?? null;
}
