/** The way to `/v1`: one function per verb, problems as errors, one stale-while-revalidate store per address. */
import { type Signal, signal } from "@preact/signals";

export const base = document.querySelector<HTMLMetaElement>("meta[name=base]")?.content ?? "";
/** What every request of the page carries: neither a form nor a foreign page can send it. */
const OURS = { "Tocsin-Dashboard": "1" };

export interface Problem {
  status: number;
  title: string;
  detail: string;
  field?: string;
  hint?: string;
  request_id?: string;
}

export class Refused extends Error {
  constructor(
    readonly problem: Problem,
    readonly retryAfter: number | null = null,
  ) {
    super(problem.detail);
  }
}

/** The tenant that an operator looks at; empty is the key's own. */
export const tenant = signal(new URLSearchParams(location.search).get("tenant") ?? "");
/** Set when the server says that no user is logged in. */
export const loggedOut = signal(false);
/** Since when the server or its database is away. */
export const away = signal<{ since: number; words: string } | null>(null);

interface Options {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export async function ask<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const acting: Record<string, string> = tenant.value ? { "Tocsin-Tenant": tenant.value } : {};
  const headers: Record<string, string> = { ...OURS, ...acting, ...options.headers };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const body = options.body === undefined ? null : JSON.stringify(options.body);
  let answer: Response;
  try {
    answer = await fetch(`${base}/v1${path}`, { method, headers, body, signal: options.signal ?? null });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    isAway("the server does not answer");
    throw new Refused({ status: 0, title: "No answer", detail: "the server does not answer" });
  }
  return read<T>(answer, path);
}

async function read<T>(answer: Response, path: string): Promise<T> {
  if (answer.ok) {
    away.value = null;
    return (await answer.json()) as T;
  }
  if (answer.status < 500) away.value = null;
  const problem = (await answer.json().catch(() => ({}))) as Partial<Problem>;
  const told: Problem = { title: answer.statusText, detail: "no details", ...problem, status: answer.status };
  if (answer.status === 401 && path !== "/session") loggedOut.value = true;
  if (answer.status === 503) isAway(told.detail);
  throw new Refused(told, Number(answer.headers.get("retry-after")) || null);
}

function isAway(words: string): void {
  away.value = { since: away.value?.since ?? Date.now(), words };
}

export const get = <T>(path: string, signal?: AbortSignal) => ask<T>("GET", path, signal ? { signal } : {});
export const post = <T>(path: string, body: unknown = {}) => ask<T>("POST", path, { body });
export const patch = <T>(path: string, body: unknown, version: number) =>
  ask<T>("PATCH", path, { body, headers: { "If-Match": `"${version}"` } });
export const put = <T>(path: string, body: unknown) => ask<T>("PUT", path, { body });
export const remove = <T>(path: string) => ask<T>("DELETE", path);

/** What is known of an address: the last good answer, its age, and what went wrong since. */
export interface Known<T> {
  data: T | null;
  at: number;
  error: Refused | null;
  loading: boolean;
}

const MOST_KEPT = 60;
const kept = new Map<string, Signal<Known<unknown>>>();
const underway = new Map<string, AbortController>();

/** The store of an address. The data of an earlier visit are shown until newer ones are there. */
export function resource<T>(path: string): Signal<Known<T>> {
  const key = `${tenant.value}|${path}`;
  const found = kept.get(key) ?? signal<Known<unknown>>({ data: null, at: 0, error: null, loading: false });
  kept.delete(key); // the one that was asked for last goes last
  kept.set(key, found);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value as string);
  return found as Signal<Known<T>>;
}

/** The last answers by what was asked for, whatever the range of time was: what a page shows while the database is away. */
const latest = new Map<string, { data: unknown; at: number }>();
const timeless = (key: string) => key.replace(/(?<=[?&])(from|to)=[^&]*/g, "");

export const lastOf = <T>(path: string) =>
  latest.get(timeless(`${tenant.value}|${path}`)) as { data: T; at: number } | undefined;

/** Ask an address anew; a request that is under way is shared. */
export async function refresh(path: string): Promise<void> {
  const key = `${tenant.value}|${path}`;
  if (underway.has(key)) return;
  const store = resource<unknown>(path);
  const control = new AbortController();
  underway.set(key, control);
  store.value = { ...store.value, loading: true };
  try {
    const data = await get<unknown>(path, control.signal);
    store.value = { data, at: Date.now(), error: null, loading: false };
    latest.delete(timeless(key));
    latest.set(timeless(key), { data, at: Date.now() });
    if (latest.size > MOST_KEPT) latest.delete(latest.keys().next().value as string);
  } catch (error) {
    if (!(error instanceof Refused)) store.value = { ...store.value, loading: false };
    else store.value = { ...store.value, error, loading: false };
  } finally {
    underway.delete(key);
  }
}

/** Leave requests of the page before to themselves. */
export function abandon(): void {
  for (const control of underway.values()) control.abort();
  underway.clear();
}

/** A query string of what is given, beginning with `?` unless there is nothing. */
export function query(given: Record<string, string | number | undefined | null>): string {
  const parts = Object.entries(given).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  const text = new URLSearchParams(parts.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}
