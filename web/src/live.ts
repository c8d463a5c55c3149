/** The stream of events: one per browser, held by one tab and passed on to the others; paused in hidden tabs. */
import { effect, signal } from "@preact/signals";
import { away, base, get, loggedOut, tenant } from "./api.ts";
import { type Told, taken } from "./stream.ts";
import { heardNow } from "./time.ts";

export interface Ended {
  id: string;
  job_id: string;
  name: string | null;
  state: string;
  reason: string | null;
  late_ms: number | null;
  run_ms: number | null;
  attempt: number;
  at: string;
}

export interface Pulse {
  now: string;
  ended: Ended[];
  more: boolean;
}

/** Whether a person wants the page to move by itself. */
export const wanted = signal(true);
export const connected = signal(false);
/** The last pulse, and how many there were that brought something: pages refresh when it grows. */
export const pulse = signal<Pulse | null>(null);
export const news = signal(0);
/** The latest things that ended, newest first. */
export const justNow = signal<Ended[]>([]);

const KEPT = 30;
const HIDDEN_FOR = 30_000;
const SILENT_FOR = 15_000;
/** Pulses come every second. After so long without one, pages ask by themselves, and learn that the database is away. */
const MISSED_FOR = 4_000;
/** While the database is away, it is asked for as often as this, so that pages are well soon after it. */
const AWAY_FOR = 1_000;

/** Take in what was told. Whatever is not a pulse says that something moved, also in the words of a newer server. */
function hear({ name, data }: Told): void {
  if (name === "pulse") {
    const told = data as Pulse;
    heardNow(told.now);
    pulse.value = told;
    if (!told.ended.length) return;
    justNow.value = [...told.ended.toReversed(), ...justNow.peek()].slice(0, KEPT);
  }
  news.value += 1;
}

/** Read a stream until it ends. `fetch` instead of EventSource, since only it can send our header. */
async function listen(stop: AbortSignal, relay: (told: Told) => void): Promise<void> {
  const headers: Record<string, string> = { "Tocsin-Dashboard": "1", Accept: "text/event-stream" };
  if (tenant.peek()) headers["Tocsin-Tenant"] = tenant.peek();
  const answer = await fetch(`${base}/v1/events`, { headers, signal: stop });
  if (answer.status === 401) loggedOut.value = true;
  if (!answer.ok || !answer.body) throw new Error(answer.statusText);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      connected.value = true;
      const { events, rest } = taken(text + value);
      text = rest;
      events.forEach(relay);
    }
  } finally {
    void reader.cancel().catch(() => undefined); // a stream that is left open takes one of the browser's six connections
  }
}

/** Hold the stream for all tabs that look at the same tenant, for as long as this one may. */
async function lead(channel: BroadcastChannel, stop: AbortSignal, beat: () => void): Promise<void> {
  let pause = 500;
  while (!stop.aborted) {
    try {
      await listen(stop, (told) => {
        pause = 500;
        beat();
        hear(told);
        channel.postMessage(told);
      });
    } catch {
      if (stop.aborted) return;
    }
    connected.value = false;
    if (loggedOut.peek()) return;
    await new Promise((done) => setTimeout(done, pause * (0.5 + Math.random())));
    pause = Math.min(pause * 2, 10_000);
  }
}

function subscribe(): () => void {
  const name = `tocsin events ${tenant.peek()}`;
  const channel = new BroadcastChannel(name);
  const stop = new AbortController();
  let heard = Date.now();
  let asked = heard;
  let asking = false;
  channel.onmessage = (message: MessageEvent<Told>) => {
    heard = Date.now();
    connected.value = true;
    hear(message.data);
  };
  const watch = setInterval(() => {
    const now = Date.now();
    if (connected.peek() && !leading && now - heard > SILENT_FOR) connected.value = false;
    if (asking || now - Math.max(heard, asked) < (away.peek() ? AWAY_FOR : MISSED_FOR)) return;
    asked = now;
    if (!away.peek()) news.value += 1;
    if (document.hidden) return;
    asking = true;
    get("/stats/summary") // says whether the database is away
      .catch(() => undefined)
      .finally(() => {
        asking = false;
        if (!away.peek()) news.value += 1;
      });
  }, AWAY_FOR);
  let leading = false;
  navigator.locks
    .request(name, { signal: stop.signal }, async () => {
      leading = true;
      await lead(channel, stop.signal, () => {
        heard = Date.now();
      });
    })
    .catch(() => undefined);
  return () => {
    clearInterval(watch);
    stop.abort();
    channel.close();
    connected.value = false;
  };
}

/** Subscribe while the page is seen and wanted live; a tab that was hidden for a while lets go. */
export function start(): void {
  const seen = signal(!document.hidden);
  let timer: ReturnType<typeof setTimeout> | undefined;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) {
      seen.value = true;
      news.value += 1;
    } else timer = setTimeout(() => (seen.value = false), HIDDEN_FOR);
  });
  effect(() => {
    tenant.value;
    if (seen.value && wanted.value && !loggedOut.value) return subscribe();
  });
}
