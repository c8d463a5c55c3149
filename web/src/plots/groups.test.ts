import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf } from "./groups.ts";
import type { Lane } from "./lane_types.ts";

const lane = (job: string, queue: string, tags: string[], ...at: string[]): Lane => ({
  job,
  name: job,
  queue,
  tags,
  fires: at.map((one) => ({
    at: one,
    state: "succeeded",
    late_ms: null,
    run_ms: null,
    reason: null,
    until: null,
    count: 1,
  })),
  bands: null,
  covers_from: "2030-01-01T00:00:00Z",
  expected_to: "2030-01-02T00:00:00Z",
});
const NONE = new Set<string>();
const MINUTE = 60_000;
const LANES = [
  lane("a", "mail", ["x", "y"], "2030-01-01T10:00:10Z"),
  lane("b", "default", [], "2030-01-01T10:00:20Z"),
  lane("c", "mail", ["x"], "2030-01-01T10:00:50Z", "2030-01-01T10:01:00Z"),
];
const keys = (by: string, closed: ReadonlySet<string> = NONE) =>
  rowsOf(LANES, by, closed, MINUTE).map((row) => row.key);

test("without a grouping, lanes are rows as they come", () => {
  assert.deepEqual(keys(""), ["a", "b", "c"]);
  assert.deepEqual(keys("nonsense"), ["a", "b", "c"]);
});

test("a queue heads its lanes with the sum of their fires", () => {
  assert.deepEqual(keys("queue"), ["group default", "default b", "group mail", "mail a", "mail c"]);
  const mail = rowsOf(LANES, "queue", NONE, MINUTE)[2];
  assert.deepEqual(mail?.heading, { name: "mail", number: 2, open: true });
  assert.deepEqual(mail?.lane.bands, [
    { at: "2030-01-01T10:00:00.000Z", counts: { succeeded: 2 } },
    { at: "2030-01-01T10:01:00.000Z", counts: { succeeded: 1 } },
  ]);
});

test("a job is under each of its tags, one without any at the end; a closed heading hides its lanes", () => {
  assert.deepEqual(keys("tag"), ["group x", "x a", "x c", "group y", "y a", "group no tag", "no tag b"]);
  assert.deepEqual(keys("tag", new Set(["x"])), ["group x", "group y", "y a", "group no tag", "no tag b"]);
});
