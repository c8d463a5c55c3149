/** Lanes under headings: by queue or by tag, each heading with the sum of its lanes. Pure. */
import type { Band, Lane } from "./lane_types.ts";

export const GROUPINGS = ["queue", "tag"];
const UNTAGGED = "no tag";

/** A row of the plot: a heading with the sum of its lanes, or a lane. */
export interface Row {
  key: string;
  heading: { name: string; number: number; open: boolean } | null;
  lane: Lane;
}

/** The rows of lanes: as they come, or under headings in the order of their names. Those without a tag come last. */
export function rowsOf(lanes: Lane[], by: string, closed: ReadonlySet<string>, stepMs: number): Row[] {
  if (!GROUPINGS.includes(by)) return lanes.map((lane) => ({ key: lane.job, heading: null, lane }));
  const groups = new Map<string, Lane[]>();
  for (const lane of lanes) {
    for (const name of namesOf(lane, by)) groups.set(name, [...(groups.get(name) ?? []), lane]);
  }
  const names = [...groups.keys()].sort(
    (a, b) => Number(a === UNTAGGED) - Number(b === UNTAGGED) || (a < b ? -1 : 1),
  );
  return names.flatMap((name) => {
    const under = groups.get(name) ?? [];
    const open = !closed.has(name);
    const heading = { name, number: under.length, open };
    const rows: Row[] = [{ key: `group ${name}`, heading, lane: sumOf(under, stepMs) }];
    const shown = open ? under : [];
    return [...rows, ...shown.map((lane) => ({ key: `${name} ${lane.job}`, heading: null, lane }))];
  });
}

const namesOf = (lane: Lane, by: string) =>
  by === "queue" ? [lane.queue] : lane.tags.length ? lane.tags : [UNTAGGED];

/** All fires of some lanes as bands of one. */
function sumOf(lanes: Lane[], stepMs: number): Lane {
  const counts = new Map<number, Record<string, number>>();
  const add = (at: string, state: string, number: number) => {
    const step = Math.floor(Date.parse(at) / stepMs) * stepMs;
    const of = counts.get(step) ?? {};
    of[state] = (of[state] ?? 0) + number;
    counts.set(step, of);
  };
  for (const lane of lanes) {
    for (const fire of lane.fires ?? []) add(fire.at, fire.state, fire.count);
    for (const band of lane.bands ?? [])
      for (const [state, number] of Object.entries(band.counts)) add(band.at, state, number);
  }
  const bands: Band[] = [...counts]
    .sort(([a], [b]) => a - b)
    .map(([at, of]) => ({ at: new Date(at).toISOString(), counts: of }));
  const some = lanes[0] as Lane;
  return { ...some, name: null, fires: null, bands };
}
