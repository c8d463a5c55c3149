import assert from "node:assert/strict";
import { test } from "node:test";
import { accessOf, bodyOf, draftOf, FRESH } from "./connection.ts";
import type { ConnectionView } from "./types.ts";

test("a connection is written with what its kind has, and with nothing that was left empty", () => {
  const draft = { ...FRESH, addresses: "a:4222\n b:4222 ", token: "bus-token" };
  assert.deepEqual(bodyOf(draft), {
    kind: "nats",
    addresses: ["a:4222", "b:4222"],
    token: { secret: "bus-token" },
  });
  assert.deepEqual(bodyOf({ ...draft, kind: "redis", createsStreams: true, tls: true }), {
    kind: "redis",
    addresses: ["a:4222", "b:4222"],
    tls: {},
    creates_streams: true,
  });
});

test("a connection to SQS has a region, and a token that others do not take", () => {
  const draft = { ...FRESH, addresses: "sqs.example.com", token: "t", region: "eu-central-1" };
  assert.deepEqual(bodyOf({ ...draft, kind: "sqs" }), {
    kind: "sqs",
    addresses: ["sqs.example.com"],
    token: { secret: "t" },
    region: "eu-central-1",
  });
  const { token: _, ...plain } = bodyOf({ ...draft, kind: "nats" });
  assert.deepEqual(plain, { kind: "nats", addresses: ["sqs.example.com"] });
});

test("a user of Kafka logs in by PLAIN unless it is said, and other kinds are told no mechanism", () => {
  const draft = { ...FRESH, kind: "kafka", addresses: "k:9092", username: "u", password: "p" };
  const body = { kind: "kafka", addresses: ["k:9092"], username: "u", password: { secret: "p" } };
  assert.deepEqual(bodyOf(draft), body);
  const scram = { ...draft, mechanism: "SCRAM-SHA-512" };
  assert.deepEqual(bodyOf(scram), { ...body, mechanism: "SCRAM-SHA-512" });
  assert.deepEqual(bodyOf({ ...scram, kind: "nats" }), { ...body, kind: "nats" });
  assert.equal(draftOf({ kind: "kafka", mechanism: "SCRAM-SHA-256" }).mechanism, "SCRAM-SHA-256");
});

test("what the form does not show stays as it was, unless its kind or TLS goes", () => {
  const before: Partial<ConnectionView> = {
    kind: "redis",
    addresses: ["cache:6379"],
    tls: { ca: null, client_certificate: { secret: "ours" }, server_name: "cache.example.com" },
    in_flight: 50,
    replicas: 2,
  };
  assert.deepEqual(bodyOf(draftOf(before), before), {
    kind: "redis",
    addresses: ["cache:6379"],
    tls: { client_certificate: { secret: "ours" }, server_name: "cache.example.com" },
    in_flight: 50,
    replicas: 2,
  });
  const plain = bodyOf({ ...draftOf(before), kind: "nats", tls: false }, before);
  assert.deepEqual(plain, { kind: "nats", addresses: ["cache:6379"], in_flight: 50 });
});

test("access is told without a secret's value", () => {
  assert.equal(accessOf({}), "no TLS");
  const tls = { ca: null, client_certificate: null, server_name: null };
  assert.equal(accessOf({ tls, username: "app", password: { secret: "p" } }), "TLS, app");
  assert.equal(accessOf({ token: { secret: "t" } }), "no TLS, a token");
});
