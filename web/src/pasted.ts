/** A line of a crontab on its way to the editor. In memory: it may hold what does not belong in an address. */
import { signal } from "@preact/signals";
import type { Entry } from "./crontab.ts";

export const pasted = signal<Entry | null>(null);
