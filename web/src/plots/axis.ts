/** Instants to pixels and back, and ticks at round times of a zone. Pure: every plot over time shares it. */

export interface Axis {
  from: number;
  to: number;
  width: number;
}

export const x = (axis: Axis, at: number): number => ((at - axis.from) / (axis.to - axis.from)) * axis.width;
export const at = (axis: Axis, px: number): number => axis.from + (px / axis.width) * (axis.to - axis.from);

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const STEPS = [1, 2, 5, 10, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE,
  5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR, 168 * HOUR]; // biome-ignore format: a table

/** The shortest step whose ticks lie at least `apart` pixels from each other. */
export function stepOf(axis: Axis, apart: number): number {
  const least = ((axis.to - axis.from) / axis.width) * apart;
  return STEPS.find((step) => step >= least) ?? STEPS[STEPS.length - 1]!;
}

/** Making a format takes far longer than using it, and plots ask for offsets with every frame. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  const found =
    formats.get(zone) ?? new Intl.DateTimeFormat("en-GB", { timeZone: zone, timeZoneName: "longOffset" });
  formats.set(zone, found);
  return found;
}

/** Minutes that a zone is ahead of UTC at an instant. */
export function offsetOf(zone: string, at: number): number {
  const parts = formatOf(zone).formatToParts(at);
  const text = parts.find((part) => part.type === "timeZoneName")?.value ?? "GMT";
  const found = /GMT([+-])(\d\d):(\d\d)/.exec(text);
  if (!found) return 0;
  return (found[1] === "-" ? -1 : 1) * (Number(found[2]) * 60 + Number(found[3]));
}

/** Round times of the zone's own clock inside the axis, also on days when the clock is changed. */
export function ticks(axis: Axis, zone: string, apart = 80): number[] {
  const step = stepOf(axis, apart);
  const found: number[] = [];
  let cursor = axis.from;
  for (let guard = 0; guard < 500 && cursor <= axis.to; guard++) {
    const shift = offsetOf(zone, cursor) * MINUTE;
    const next = Math.ceil((cursor + shift) / step) * step - shift;
    const settled = next + shift - offsetOf(zone, next) * MINUTE;
    const tick = settled >= cursor ? settled : next;
    if (tick > axis.to) break;
    found.push(tick);
    cursor = tick + 1;
  }
  return found;
}

/** A round number at or above a value, for the top of a scale. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10) * power;
}
