/** Instants and durations in words. "Now" is the database's clock: the offset of the browser's is learned from answers. */
import { computed, signal } from "@preact/signals";
import { place } from "./router.ts";

const offset = signal(0);
/** A tick a second, for everything that counts towards now; the same moment for all of them, so that rows agree. */
export const tick = signal(Date.now());
setInterval(() => {
  if (!document.hidden) tick.value = Date.now();
}, 1000);

export function heardNow(text: string): void {
  const learned = Date.parse(text) - Date.now();
  if (Math.abs(learned - offset.peek()) > 250) offset.value = learned;
}

export function now(): number {
  return Date.now() + offset.value;
}

/** `UTC`, `local`, or the name of a zone: the address first, then what was chosen last. */
export const zone = computed(() => place.value.query.get("zone") ?? localStorage.getItem("zone") ?? "local");

/** The zone of the job that a page shows, if it shows one: the switch offers it. */
export const jobZone = signal("");

export function zoneName(): string {
  return zone.value === "local" ? Intl.DateTimeFormat().resolvedOptions().timeZone : zone.value;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = JSON.stringify([zoneName(), options]);
  let found = formats.get(key);
  if (!found) {
    found = new Intl.DateTimeFormat("en-GB", { timeZone: zoneName(), hourCycle: "h23", ...options });
    formats.set(key, found);
  }
  return found;
}

const CLOCK: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const DAY: Intl.DateTimeFormatOptions = { weekday: "short", day: "numeric", month: "short" };

export const clock = (at: number) => format(CLOCK).format(at);
export const minute = (at: number) => format({ hour: "2-digit", minute: "2-digit" }).format(at);
export const day = (at: number) => format(DAY).format(at);

/** The day of a time as its own zone reads it: `2030-01-01T02:30:00+09:00` is the first of January everywhere. */
export function dayOf(local: string): string {
  const at = new Date(`${local.slice(0, 19)}Z`);
  const year = at.getUTCFullYear() === new Date(now()).getUTCFullYear() ? {} : ({ year: "numeric" } as const);
  return new Intl.DateTimeFormat("en-GB", { ...DAY, ...year, timeZone: "UTC" }).format(at);
}

/** A time as short as it is clear: without the day if it is today's. */
export function moment(text: string): string {
  const at = Date.parse(text);
  return day(at) === day(now()) ? clock(at) : `${day(at)} ${minute(at)}`;
}

/** Everything about an instant, shown on hover. */
export function whole(text: string): string {
  const at = Date.parse(text);
  const local = format({ ...DAY, year: "numeric", ...CLOCK, timeZoneName: "short" }).format(at);
  return `${local}\n${text}\n${distance(at)}`;
}

/** A date and a time of the day, for a list that spans days. */
export const stamp = (at: number) => format({ ...DAY, ...CLOCK }).format(at);

/** How far an instant is from now: "in 5 s", "3 min ago". */
export function distance(at: number): string {
  const away = at - (tick.value + offset.value);
  if (Math.abs(away) < 1000) return "now";
  return away > 0 ? `in ${duration(away)}` : `${duration(-away)} ago`;
}

const UNITS: [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];

/** A length of time with at most two units: "1 h 30 min", "2.4 s", "7 ms". */
export function duration(ms: number): string {
  if (ms < 1) return ms <= 0 ? "0 ms" : `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1).replace(/\.0$/, "")} s`;
  for (const [index, [size, name]] of UNITS.entries()) {
    if (ms < size) continue;
    const next = UNITS[index + 1];
    const rest = next ? Math.floor((ms % size) / next[0]) : 0;
    const first = `${Math.floor(ms / size)} ${name}`;
    return rest && next ? `${first} ${rest} ${next[1]}` : first;
  }
  return `${Math.round(ms)} ms`;
}

export const count = (n: number, capped = false) => n.toLocaleString("en") + (capped ? "+" : "");
