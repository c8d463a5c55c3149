import assert from "node:assert/strict";
import { test } from "node:test";
import { firesChanged } from "./fires_changed.ts";

const hours = (step: number, count: number) =>
  Array.from({ length: count }, (_, n) => new Date((n + 1) * step * 3_600_000).toISOString());

test("twice as often gains every other fire and loses none", () => {
  const { lost, gained } = firesChanged(hours(2, 10), hours(1, 10), 10);
  assert.equal(lost.length, 0);
  assert.deepEqual(
    gained,
    hours(1, 10).filter((_, n) => n % 2 === 0),
  );
});

test("only as far as both lists reach", () => {
  assert.deepEqual(firesChanged(hours(1, 4), hours(1, 4).slice(0, 4), 4), { lost: [], gained: [] });
  assert.equal(firesChanged(hours(1, 10), hours(5, 10), 10).lost.length, 8);
});

test("a schedule that ends loses what would have come after", () => {
  assert.deepEqual(firesChanged(hours(1, 3), [], 3).lost, hours(1, 3));
});
