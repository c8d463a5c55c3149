import assert from "node:assert/strict";
import { test } from "node:test";
import { clockChanges } from "./changes.ts";

test("both clock changes of the coming year are found, with their local dates", () => {
  const found = clockChanges("Europe/Berlin", Date.parse("2026-11-18T10:00:00Z"));
  assert.deepEqual(
    found.map(({ date, by }) => [date, by]),
    [
      ["2027-03-28", 60],
      ["2027-10-31", -60],
    ],
  );
  assert.equal(new Date(found[0]!.at).toISOString(), "2027-03-28T01:00:00.000Z");
});

test("a zone without clock changes has none", () => {
  assert.deepEqual(clockChanges("Asia/Tokyo", Date.parse("2026-11-18T10:00:00Z")), []);
});

test("a change is found up to the instant that is asked for, and not beyond", () => {
  const at = Date.parse("2027-03-28T01:00:00Z");
  assert.equal(clockChanges("Europe/Berlin", at - 3_600_000, 1, at + 1).length, 1);
  assert.deepEqual(clockChanges("Europe/Berlin", at - 3_600_000, 1, at), []);
});
