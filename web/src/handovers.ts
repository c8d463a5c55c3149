/** Shards that changed hands between two looks at them. Pure. */
import type { Shard } from "./types.ts";

export interface Handover {
  at: number;
  /** How many shards the node before lost, and who has them now. */
  from: string;
  to: [string, number][];
  shards: number;
  /** Whether the epochs rose: an owner that gave a shard up by itself leaves its epoch as it is. */
  rose: boolean;
}

const nameOf = (shard: Shard) => (shard.owner === null ? "nobody" : (shard.node ?? `node ${shard.owner}`));

/** One entry for each node that lost shards. A shard counts as lost when its epoch rose or its owner is another. */
export function handovers(before: Shard[], after: Shard[], at: number): Handover[] {
  const old = new Map(before.map((shard) => [shard.shard, shard]));
  const losses = new Map<string, Map<string, number>>();
  const rising = new Set<string>();
  for (const shard of after) {
    const was = old.get(shard.shard);
    if (!was || (was.owner === shard.owner && was.epoch === shard.epoch)) continue;
    const takers = losses.get(nameOf(was)) ?? new Map<string, number>();
    takers.set(nameOf(shard), (takers.get(nameOf(shard)) ?? 0) + 1);
    losses.set(nameOf(was), takers);
    if (shard.epoch > was.epoch) rising.add(nameOf(was));
  }
  return [...losses].map(([from, takers]) => ({
    at,
    from,
    rose: rising.has(from),
    to: [...takers],
    shards: [...takers.values()].reduce((sum, n) => sum + n, 0),
  }));
}
