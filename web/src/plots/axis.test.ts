import assert from "node:assert/strict";
import { test } from "node:test";
import { at, offsetOf, roundUp, stepOf, ticks, x } from "./axis.ts";

const HOUR = 3_600_000;
const day = (text: string) => ({ from: Date.parse(text), to: Date.parse(text) + 24 * HOUR, width: 960 });

test("pixels and instants are each other's inverse", () => {
  const axis = day("2026-11-17T00:00:00Z");
  assert.equal(x(axis, axis.from + 12 * HOUR), 480);
  assert.equal(at(axis, 480), axis.from + 12 * HOUR);
});

test("ticks stand at round hours of the zone", () => {
  const found = ticks(day("2026-11-17T00:00:00Z"), "Asia/Kolkata", 80);
  assert.ok(found.every((tick) => (tick + 5.5 * HOUR) % (2 * HOUR) === 0));
  assert.equal(found.length, 12);
});

test("on days when the clock is changed ticks stay round on the clock and never go back", () => {
  for (const text of ["2027-03-27T23:00:00Z", "2026-10-24T22:00:00Z"]) {
    const found = ticks(day(text), "Europe/Berlin", 40);
    for (const tick of found) assert.equal((tick + offsetOf("Europe/Berlin", tick) * 60_000) % HOUR, 0);
    assert.deepEqual(
      found,
      [...found].sort((a, b) => a - b),
    );
  }
});

test("a tighter plot has larger steps", () => {
  const axis = day("2026-11-17T00:00:00Z");
  assert.equal(stepOf(axis, 80), 2 * HOUR);
  assert.equal(stepOf({ ...axis, width: 320 }, 80), 6 * HOUR);
});

test("scales end at round numbers", () => {
  assert.deepEqual([0, 0.3, 7, 11, 50, 51, 999].map(roundUp), [1, 0.5, 10, 20, 50, 100, 1000]);
});
