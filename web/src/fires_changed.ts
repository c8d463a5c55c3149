/** Which fires a change of a schedule takes away, and which it brings. Pure. */

export interface Changed {
  lost: string[];
  gained: string[];
}

/** The difference of two lists of coming fires, as far as both of them reach. A list that is shorter than asked for has ended. */
export function firesChanged(before: string[], after: string[], asked: number): Changed {
  const reach = Math.min(lastOf(before, asked), lastOf(after, asked));
  const within = (at: string) => Date.parse(at) <= reach;
  const old = new Set(before);
  const fresh = new Set(after);
  return {
    lost: before.filter((at) => within(at) && !fresh.has(at)),
    gained: after.filter((at) => within(at) && !old.has(at)),
  };
}

const lastOf = (fires: string[], asked: number) =>
  fires.length < asked ? Number.POSITIVE_INFINITY : Date.parse(fires[fires.length - 1]!);
