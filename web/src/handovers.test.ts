import assert from "node:assert/strict";
import { test } from "node:test";
import { handovers } from "./handovers.ts";

const shard = (number: number, owner: number | null, epoch: number) => ({
  shard: number, owner, epoch, node: owner === null ? null : `n${owner}`, expires_at: null,
}); // biome-ignore format: a table

test("what a lost node had is told once, with who has it now", () => {
  const before = [shard(0, 1, 1), shard(1, 1, 1), shard(2, 2, 1)];
  const after = [shard(0, 2, 2), shard(1, 3, 2), shard(2, 2, 1)];
  assert.deepEqual(handovers(before, after, 5), [
    { at: 5, from: "n1", rose: true, to: [["n2", 1], ["n3", 1]], shards: 2 },
  ]); // biome-ignore format: a table
});

test("nothing is told while nothing changes", () => {
  assert.deepEqual(handovers([shard(0, 1, 1)], [shard(0, 1, 1)], 5), []);
});
