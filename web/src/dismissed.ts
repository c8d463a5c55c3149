/** What a person has seen and does not want to see again for a day, in this browser. Kept as numbers: no text is stored. */
import { signal } from "@preact/signals";
import { tenant } from "./api.ts";

const DAY = 86_400_000;
const KEPT = "dismissed";

interface Dismissable {
  kind: string;
  text: string;
}

const until = signal<Record<string, number>>(read());

function read(): Record<string, number> {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}") as Record<string, number>;
    return Object.fromEntries(Object.entries(kept).filter(([, end]) => end > Date.now()));
  } catch {
    return {};
  }
}

/** A number for a kind and a text. */
function keyOf({ kind, text }: Dismissable): string {
  let sum = 0;
  for (const letter of `${tenant.value} ${kind} ${text}`)
    sum = (Math.imul(sum, 31) + letter.codePointAt(0)!) | 0;
  return (sum >>> 0).toString(36);
}

export const isDismissed = (one: Dismissable) => (until.value[keyOf(one)] ?? 0) > Date.now();

function keep(changed: Record<string, number>): void {
  until.value = changed;
  localStorage.setItem(KEPT, JSON.stringify(changed));
}

export const dismiss = (one: Dismissable) => keep({ ...until.value, [keyOf(one)]: Date.now() + DAY });
export const recall = () => keep({});
