import assert from "node:assert/strict";
import { test } from "node:test";
import type { Lane } from "./lane_types.ts";
import { draw, nearest } from "./lanes.ts";

const axis = { from: 0, to: 100_000, width: 1000 };
const at = (seconds: number) => new Date(seconds * 1000).toISOString();
const fire = (seconds: number, state: string, run_ms: number | null = null) => ({
  at: at(seconds), state, late_ms: 0, run_ms, reason: null, until: null, count: 1,
}); // biome-ignore format: a table
const lane = (fires: ReturnType<typeof fire>[]): Lane => ({
  job: "job_1", name: "one", fires, bands: null, covers_from: at(0), expected_to: at(100),
}); // biome-ignore format: a table

test("a lane is one path per state, however many fires it has", () => {
  const fires = Array.from({ length: 90 }, (_, n) => fire(n, n % 2 ? "succeeded" : "dead"));
  const { marks, bars } = draw(lane(fires), axis, 1000);
  assert.deepEqual([...marks.keys()].sort(), ["dead", "succeeded"]);
  assert.equal(bars.size, 0);
});

test("what ran long enough to be seen has a bar as long as it ran", () => {
  const { bars } = draw(lane([fire(10, "succeeded", 20_000)]), axis, 1000);
  assert.match(bars.get("succeeded") ?? "", /^M100\.0 .*h200\.0/);
});

test("a dense lane has bands, each in the colour of the worst that is in it", () => {
  const bands = [
    { at: at(0), counts: { succeeded: 9 } },
    { at: at(10), counts: { succeeded: 8, dead: 1 } },
  ];
  const { bars } = draw({ ...lane([]), fires: null, bands }, axis, 10_000);
  assert.deepEqual([...bars.keys()].sort(), ["dead", "succeeded"]);
});

test("a click means the nearest fire, and none where none is near", () => {
  const one = lane([fire(10, "succeeded"), fire(20, "dead")]);
  assert.equal(nearest(one, 18_500, 2000)?.state, "dead");
  assert.equal(nearest(one, 15_000, 2000), null);
});

test("expected fires that are too near to be told apart are a band", () => {
  const apart = draw(lane([fire(10, "expected"), fire(11, "expected")]), axis, 1000);
  assert.deepEqual([apart.marks.size, apart.bars.size], [1, 0]);
  const near = draw(lane([fire(10, "expected"), fire(10.4, "expected"), fire(10.8, "expected")]), axis, 1000);
  assert.match(near.bars.get("expected") ?? "", /^M100\.0 .*H104\.0.*M104\.0 .*H108\.0/);
});
