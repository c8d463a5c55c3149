import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, changesOf, draftOf, FRESH, newOf, optionsOf } from "./draft.ts";
import type { Job } from "./types.ts";

const JOB = {
  name: "receipts",
  schedule: { every: "1h" },
  target: { kind: "task", task: "shop.receipt", payload: { order: 17 }, trace: null },
  queue: "mail",
  tags: [],
  retry: { max_attempts: 5 },
  overlap: "allow",
  misfire: { policy: "fire_once" },
} as unknown as Job;

test("a job that runs a task stays one when something else is changed", () => {
  const draft = { ...draftOf(JOB), queue: "post" };
  assert.deepEqual(changesOf(JOB, bodyOf(draft)), { queue: "post" });
});

test("a task's payload is JSON or text, and text that reads as JSON stays text", () => {
  const draft = { ...FRESH, kind: "task" as const, task: "shop.receipt" };
  const payload = (text: string) => bodyOf({ ...draft, payload: text }).target;
  assert.deepEqual(payload('{"order": 1}'), { kind: "task", task: "shop.receipt", payload: { order: 1 } });
  assert.deepEqual(payload("order 1"), { kind: "task", task: "shop.receipt", payload: "order 1" });
  const quoted = { ...JOB, target: { ...JOB.target, payload: "17" } } as Job;
  assert.deepEqual(changesOf(quoted, bodyOf(draftOf(quoted))), {});
  assert.equal(draftOf(quoted).payload, '"17"');
});

test("a new task leaves out what is empty, and is the same as a command", () => {
  const draft = { ...FRESH, kind: "task" as const, task: "shop.receipt" };
  assert.deepEqual(newOf(draft).target, { kind: "task", task: "shop.receipt" });
  const options = optionsOf({ ...draft, payload: "[1]" }).join(" ");
  assert.match(options, /--task shop.receipt --payload \[1\]/);
});

test("a target that the form does not know stays as it is", () => {
  const other = { ...JOB, target: { kind: "carrier-pigeon", loft: 3 } } as unknown as Job;
  assert.deepEqual(changesOf(other, bodyOf({ ...draftOf(other), queue: "post" })), { queue: "post" });
  assert.deepEqual(changesOf(other, bodyOf({ ...draftOf(other), kind: "noop" })), {
    target: { kind: "noop" },
  });
});

test("a message goes through a connection, and its headers stay when its body is changed", () => {
  const target = {
    kind: "rabbitmq",
    connection: "bus",
    exchange: "",
    routing_key: "due",
    headers: { a: "b" },
    body: 1,
  };
  const job = { ...JOB, target } as unknown as Job;
  const draft = draftOf(job);
  assert.deepEqual([draft.kind, draft.connection, draft.place], ["message", "bus", "due"]);
  assert.deepEqual(changesOf(job, bodyOf({ ...draft, queue: "post" })), { queue: "post" });
  assert.deepEqual(changesOf(job, bodyOf({ ...draft, body: "2" })), { target: { ...target, body: 2 } });
  const fresh = { ...FRESH, kind: "message" as const, connection: "bus", place: "due.orders", body: "hi" };
  const written = { kind: "nats", connection: "bus", subject: "due.orders", body: "hi" };
  assert.deepEqual(newOf(fresh).target, written);
  assert.deepEqual(optionsOf(fresh).slice(-2), ["--target", JSON.stringify(written)]);
});

test("a message to Kafka has a key if one was given, and loses it when it is cleared", () => {
  const draft = { ...FRESH, kind: "message" as const, broker: "kafka", connection: "log", place: "due" };
  const written = { kind: "kafka", connection: "log", topic: "due" };
  assert.deepEqual(newOf(draft).target, written);
  assert.deepEqual(newOf({ ...draft, key: "7" }).target, { ...written, key: "7" });
  const job = { ...JOB, target: { ...written, key: "7" } } as unknown as Job;
  assert.equal(draftOf(job).key, "7");
  assert.deepEqual(changesOf(job, bodyOf({ ...draftOf(job), key: "" })), {
    target: { ...written, key: null },
  });
});

test("a timeout, a priority and a pause by itself are written where they were given", () => {
  const draft = { ...FRESH, url: "http://x", timeout: "5s", priority: "0", pauseAfter: "3" };
  const { timeout, priority, pause_after } = newOf(draft);
  assert.deepEqual({ timeout, priority, pause_after }, { timeout: "5s", priority: 0, pause_after: 3 });
  assert.match(optionsOf(draft).join(" "), /--timeout 5s --priority 0 --pause-after 3$/);
  assert.ok(!("timeout" in newOf(FRESH)) && !("pause_after" in newOf(FRESH)));
  const job = { ...JOB, timeout: "1m30s", priority: 2, pause_after: 4 } as unknown as Job;
  assert.deepEqual(changesOf(job, bodyOf({ ...draftOf(job), pauseAfter: "" })), { pause_after: null });
});

test("a limit, a wait and a description are written as they were read, and a new job has only what was typed", () => {
  const job = {
    ...JOB,
    description: "for the books",
    retry: { max_attempts: 5, initial_backoff: "1s" },
    start_within: 90,
    limit: { key: "vendor", max_parallel: null, rate: 5, per: "1m" },
  } as unknown as Job;
  const draft = draftOf(job);
  assert.deepEqual(changesOf(job, bodyOf(draft)), {});
  assert.deepEqual(changesOf(job, bodyOf({ ...draft, limitParallel: "2", description: "" })), {
    description: null,
    limit: { key: "vendor", max_parallel: 2, rate: 5, per: "1m" },
  });
  assert.deepEqual(changesOf(job, bodyOf({ ...draft, limitKey: "", backoff: "2s" })), {
    limit: null,
    retry: { max_attempts: 5, initial_backoff: "2s" },
  });
  const fresh = { ...FRESH, kind: "noop" as const, limitKey: "vendor", limitParallel: "3" };
  assert.deepEqual(newOf(fresh).limit, { key: "vendor", max_parallel: 3 });
  assert.deepEqual(optionsOf(fresh).slice(-4), ["--limit-key", "vendor", "--limit-parallel", "3"]);
  assert.equal("start_within" in newOf(fresh), false);
});
