/** How pages get their data: shown at once if known, asked anew on arrival and with each pulse that brings news. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type Known, lastOf, refresh, resource, tenant } from "./api.ts";
import { connected, news, wanted } from "./live.ts";
import { asked } from "./router.ts";

const POLL_MS = 5000;
const SOONEST_MS = 1000;
/** The statuses of a server, or of its database, that cannot be reached. */
const AWAY = [0, 503];

/**
 * The data of an address. `live` ones follow the pulse, unless they are meant to be asked for more rarely; without a stream they are asked for every few seconds. While those of
 * another address are on their way, for a filter was changed, the ones before are shown.
 */
export function useData<T>(
  path: string | null,
  live = true,
  everyMs = POLL_MS,
): Known<T> & { again: () => void } {
  const store = resource<T>(path ?? "");
  const acting = tenant.value;
  const last = useRef(0);
  useEffect(() => {
    if (path === null) return;
    last.current = Date.now();
    void refresh(path);
  }, [path, acting]);
  /** Whether the server wants to be left alone for longer. */
  const told = () => {
    const { error } = store.peek();
    return error?.problem.status === 429 && Date.now() < last.current + (error.retryAfter ?? 0) * 1000;
  };
  const heard = news.value;
  useEffect(() => {
    const rarely = everyMs > POLL_MS && store.peek().error === null; // what failed is mended by news, too
    if (!live || path === null || rarely || !wanted.value || document.hidden) return;
    const wait = Math.max(0, last.current + SOONEST_MS - Date.now());
    const timer = setTimeout(() => {
      if (told()) return;
      last.current = Date.now();
      void refresh(path);
    }, wait);
    return () => clearTimeout(timer);
  }, [heard]);
  useEffect(() => {
    if (!live || path === null) return;
    const often = Math.min(everyMs, POLL_MS);
    const timer = setInterval(() => {
      const due = Date.now() - last.current >= everyMs || (!connected.value && often === everyMs);
      if (!document.hidden && wanted.value && !told() && (due || store.peek().error !== null)) {
        last.current = Date.now();
        void refresh(path);
      }
    }, often);
    return () => clearInterval(timer);
  }, [path, live, everyMs]);
  const before = useRef<T | null>(null);
  const { data, at, error, loading } = store.value;
  if (data !== null) before.current = data;
  const again = () => {
    last.current = Date.now();
    if (path !== null) void refresh(path);
  };
  const missing = error !== null && AWAY.includes(error.problem.status);
  const earlier = data === null && missing && path !== null ? lastOf<T>(path) : undefined;
  if (earlier) return { data: earlier.data, at: earlier.at, error, loading, again };
  return { data: data ?? (error === null ? before.current : null), at, error, loading, again };
}

/** How long rows of another filter or page may be on their way, before those that are shown are held again. */
const ON_THEIR_WAY_MS = 1000;

/**
 * Rows that do not move under the pointer: while it is over them, new ones wait, and `waiting` says how many. A user who
 * asks for others, by a tag in a row say, gets them at once.
 */
export function useStill<T extends { id: string }>(
  rows: T[],
): { shown: T[]; waiting: number; hold: object; let: () => void } {
  const held = useRef<T[] | null>(null);
  const turned = useRef({ to: asked(), at: 0 });
  const [, redraw] = useState(0);
  if (turned.current.to !== asked()) {
    turned.current = { to: asked(), at: Date.now() };
    held.current = null;
  }
  const fresh = new Map(rows.map((row) => [row.id, row]));
  const shown = held.current?.map((row) => fresh.get(row.id) ?? row) ?? rows;
  const known = new Set(shown.map((row) => row.id));
  const waiting = held.current ? rows.filter((row) => !known.has(row.id)).length : 0;
  const release = () => {
    held.current = null;
    redraw((n) => n + 1);
  };
  const keep = () => {
    if (Date.now() - turned.current.at > ON_THEIR_WAY_MS) held.current ??= rows;
  };
  const hold = { onPointerEnter: keep, onPointerMove: keep, onPointerLeave: release };
  return { shown, waiting, hold, let: release };
}

/** A value that settles: what it was when it had not changed for a while. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
