import assert from "node:assert/strict";
import { test } from "node:test";
import { taken } from "./stream.ts";

test("events are told apart by name, comments are passed over, and half an event waits for its rest", () => {
  const text =
    'retry: 2000\n\n: still here\n\nevent: operation\nid: 1\ndata: {"id": 7}\n\nevent: pulse\ndata: {"no';
  const { events, rest } = taken(text);
  assert.deepEqual(events, [{ name: "operation", data: { id: 7 } }]);
  assert.deepEqual(taken(`${rest}w": 1}\n\n`).events, [{ name: "pulse", data: { now: 1 } }]);
});
