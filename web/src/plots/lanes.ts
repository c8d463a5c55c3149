/** A lane of fires as paths: one per state, never an element per fire. Pure. */
import { type Axis, x } from "./axis.ts";
import type { Band, Lane, LaneFire } from "./lane_types.ts";

export const LANE = 28;
const MIDDLE = LANE / 2;
const R = 4;
/** Expected fires that are nearer to each other than this become a band: their marks would look like lines. */
const APART = 5;

/** From the worst to the best: a band has the colour of the worst fire in it. */
export const STATES = [
  "dead",
  "expired",
  "skipped",
  "cancelled",
  "running",
  "queued",
  "succeeded",
  "expected",
];

export interface Drawn {
  /** Marks, by state. */
  marks: Map<string, string>;
  /** Run times as bars, by state. */
  bars: Map<string, string>;
}

export function draw(lane: Lane, axis: Axis, stepMs: number): Drawn {
  return lane.bands ? drawBands(lane.bands, axis, stepMs) : drawFires(lane.fires ?? [], axis);
}

function drawFires(fires: LaneFire[], axis: Axis): Drawn {
  const marks = new Map<string, string>();
  const bars = new Map<string, string>();
  let before = Number.NEGATIVE_INFINITY;
  for (const fire of fires) {
    const at = x(axis, Date.parse(fire.at));
    const end = fire.until ? x(axis, Date.parse(fire.until)) : at;
    if (beyond(axis, at, end)) continue;
    if (fire.state === "expected" && at - before < APART) add(bars, fire.state, close(before, at));
    else add(marks, fire.state, fire.count > 1 ? run(at, end) : mark(fire.state, at));
    before = fire.state === "expected" ? at : Number.NEGATIVE_INFINITY;
    const bar = barOf(fire, axis);
    if (bar) add(bars, fire.state, bar);
  }
  return { marks, bars };
}

/** Whether it is off the plot even when that has been moved by its width: lanes are moved as a whole, and drawn rarely. */
const beyond = (axis: Axis, begin: number, end: number) => end < -axis.width || begin > 2 * axis.width;

const add = (to: Map<string, string>, state: string, path: string) =>
  to.set(state, (to.get(state) ?? "") + path);
const n = (value: number) => value.toFixed(1);

/** The mark of a state: each has a shape of its own, so that no colour is needed to tell them apart. */
export function mark(state: string, at: number, y = MIDDLE): string {
  const left = n(at - R);
  switch (state) {
    case "dead":
      return `M${left} ${y - R}l${2 * R} ${2 * R}m0 ${-2 * R}l${-2 * R} ${2 * R}`;
    case "skipped":
      return `M${n(at)} ${y - R}l${R} ${R}l${-R} ${R}l${-R} ${-R}z`;
    case "expected":
      return `M${n(at)} ${y - 6}v3m0 2.5v3m0 2.5v3`;
    case "cancelled":
      return `${circle(at, y)}M${n(at - 2.8)} ${y + 2.8}l5.6 -5.6`;
    case "expired":
      return `M${left} ${y - R}h${2 * R}l${-2 * R} ${2 * R}h${2 * R}z`;
    default:
      return circle(at, y);
  }
}

const circle = (at: number, y: number) =>
  `M${n(at - R)} ${y}a${R} ${R} 0 1 0 ${2 * R} 0a${R} ${R} 0 1 0 ${-2 * R} 0z`;

/** What is expected too often to be told apart. */
const close = (from: number, to: number) => `M${n(from)} ${MIDDLE - 6}H${n(to)}v12H${n(from)}z`;

/** A run of equal skips: a line with ends. */
const run = (from: number, to: number) =>
  `M${n(from)} ${MIDDLE - R}v${2 * R}M${n(from)} ${MIDDLE}H${n(Math.max(to, from + 2))}M${n(to)} ${MIDDLE - R}v${2 * R}`;

/** How long it ran, from when it really started; nothing where that is smaller than its mark. */
function barOf(fire: LaneFire, axis: Axis): string {
  if (fire.run_ms === null) return "";
  const start = x(axis, Date.parse(fire.at) + (fire.late_ms ?? 0));
  const wide = (fire.run_ms / (axis.to - axis.from)) * axis.width;
  return wide < 2 * R ? "" : `M${n(start)} ${MIDDLE - 2}h${n(wide)}v4h${n(-wide)}z`;
}

function drawBands(bands: Band[], axis: Axis, stepMs: number): Drawn {
  const bars = new Map<string, string>();
  const most = Math.max(1, ...bands.map(total));
  const wide = Math.max(1, (stepMs / (axis.to - axis.from)) * axis.width - 0.6);
  for (const band of bands) {
    const worst = STATES.find((state) => band.counts[state]) ?? "succeeded";
    const high = Math.max(3, (total(band) / most) * (LANE - 8));
    const left = x(axis, Date.parse(band.at));
    if (beyond(axis, left, left + wide)) continue;
    add(bars, worst, `M${n(left)} ${LANE - 4}v${n(-high)}h${n(wide)}v${n(high)}z`);
  }
  return { marks: new Map(), bars };
}

export const total = (band: Band) => Object.values(band.counts).reduce((sum, one) => sum + one, 0);

/** The fire nearest to an instant, if it is near enough to be meant. */
export function nearest(lane: Lane, at: number, within: number): LaneFire | null {
  let found: LaneFire | null = null;
  let best = within;
  for (const fire of lane.fires ?? []) {
    const begin = Date.parse(fire.at);
    const end = Math.max(begin + (fire.run_ms ?? 0), fire.until ? Date.parse(fire.until) : 0);
    const away = at < begin ? begin - at : at > end ? at - end : 0;
    if (away <= best) {
      best = away;
      found = fire;
    }
  }
  return found;
}
