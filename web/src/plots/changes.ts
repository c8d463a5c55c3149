/** When the clocks of a zone change. Pure. */
import { offsetOf } from "./axis.ts";

const DAY = 86_400_000;
const MINUTE = 60_000;

export interface ClockChange {
  at: number;
  /** The local date on which it happens. */
  date: string;
  /** Minutes that the clock jumps ahead; negative ones come twice. */
  by: number;
}

/** The next changes before an instant, within a year and a bit unless one is given; at most `most`. */
export function clockChanges(zone: string, from: number, most = 2, before = from + 400 * DAY): ClockChange[] {
  const found: ClockChange[] = [];
  for (let day = from; day < before && found.length < most; day += DAY) {
    const offset = offsetOf(zone, day);
    const by = offsetOf(zone, day + DAY) - offset;
    if (!by) continue;
    const at = instantOf(zone, day, day + DAY, offset);
    if (at < before) found.push({ at, by, date: new Date(at + offset * MINUTE).toISOString().slice(0, 10) });
  }
  return found;
}

/** The instant between two at which the offset is no longer what it was. */
function instantOf(zone: string, low: number, high: number, before: number): number {
  while (high - low > MINUTE) {
    const middle = Math.floor((low + high) / 2 / MINUTE) * MINUTE;
    if (middle <= low) break;
    if (offsetOf(zone, middle) === before) low = middle;
    else high = middle;
  }
  return high;
}
