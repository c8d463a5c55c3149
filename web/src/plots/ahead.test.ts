import assert from "node:assert/strict";
import { test } from "node:test";
import type { ComingFire, Forecast } from "../types.ts";
import { ahead, MOST_COMING } from "./ahead.ts";

const T = Date.parse("2030-01-01T10:00:00Z");
const SECOND = 1000;
const fire = (seconds: number) => ({ at: new Date(T + seconds * SECOND).toISOString() }) as ComingFire;
const forecast = (...expected: number[]) =>
  ({
    at: expected.map((_, n) => new Date(T + n * 60 * SECOND).toISOString()),
    expected,
    one_offs: expected.map(() => 0),
  }) as unknown as Forecast;

test("the next half minute is counted fire by fire, and the forecast goes on behind it", () => {
  const coming = [fire(1), fire(2), fire(29), fire(90), fire(7200)]; // one far away hides nothing before it
  assert.deepEqual(ahead(coming, forecast(12, 24), T, 5 * SECOND), [
    { at: T, ms: 5 * SECOND, number: 2 },
    { at: T + 25 * SECOND, ms: 5 * SECOND, number: 1 },
    { at: T + 30 * SECOND, ms: 30 * SECOND, number: 1 }, // half of the twelve, in six steps
    { at: T + 60 * SECOND, ms: 60 * SECOND, number: 2 },
  ]);
});

test("where more come than were asked for, the forecast goes on behind the last of them", () => {
  const many = Array.from({ length: MOST_COMING }, () => fire(4));
  assert.deepEqual(ahead(many, forecast(120), T, 5 * SECOND), [
    { at: T, ms: 5 * SECOND, number: MOST_COMING },
    { at: T + 5 * SECOND, ms: 55 * SECOND, number: 10 },
  ]);
});

test("steps longer than a minute add minutes up", () => {
  assert.deepEqual(ahead([], forecast(1, 2, 3, 4), T - 60 * SECOND, 120 * SECOND), [
    { at: T, ms: 120 * SECOND, number: 3 },
    { at: T + 120 * SECOND, ms: 120 * SECOND, number: 7 },
  ]);
});

test("without a forecast the next fire of each job is all that is known", () => {
  assert.deepEqual(ahead([fire(90)], null, T, 60 * SECOND), [
    { at: T + 60 * SECOND, ms: 60 * SECOND, number: 1 },
  ]);
});

test("nothing is foreseen for what is over", () => {
  assert.deepEqual(ahead([], forecast(12), T + 60 * SECOND, 5 * SECOND), []);
});

test("where single fires are not known, the forecast begins now", () => {
  assert.deepEqual(ahead(null, forecast(12), T + 30 * SECOND, 5 * SECOND), [
    { at: T + 30 * SECOND, ms: 30 * SECOND, number: 1 },
  ]);
  assert.deepEqual(ahead(null, null, T, 5 * SECOND), []);
});
