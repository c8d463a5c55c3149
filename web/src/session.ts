/** Who is logged in. The key is handed over and forgotten; the browser keeps a cookie that no script can read. */
import { computed, signal } from "@preact/signals";
import { get, loggedOut, post, Refused, remove } from "./api.ts";
import { heardNow } from "./time.ts";
import type { SessionView } from "./types.ts";

export const session = signal<SessionView | null>(null);
export const refusal = signal<string | null>(null);
/** Null while it is not known yet. */
export const known = signal(false);

export const mayWrite = computed(() => has("write"));
export const operator = computed(() => session.value?.scopes.includes("admin") ?? false);

function has(scope: "read" | "write"): boolean {
  return (session.value?.scopes.includes(scope) ?? false) || operator.value;
}

/** Learn who we are, by the ticket in the address first. It stands behind `#`, and leaves the address at once. */
export async function begin(): Promise<void> {
  const ticket = /^#ticket=([\w-]+)$/.exec(location.hash)?.[1];
  if (ticket) {
    history.replaceState(null, "", location.pathname + location.search);
    await logIn({ ticket });
  } else await look();
}

export async function logIn(by: { key: string } | { ticket: string }): Promise<void> {
  refusal.value = null;
  try {
    await post("/session", by);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    refusal.value = error.problem.detail;
  }
  await look();
}

export async function look(): Promise<void> {
  try {
    const found = await get<SessionView>("/session");
    heardNow(found.now);
    session.value = found;
    loggedOut.value = false;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.problem.status === 401) loggedOut.value = true;
    else refusal.value = error.problem.detail;
    session.value = null;
  }
  known.value = true;
}

export async function logOut(): Promise<void> {
  await remove("/session").catch(() => undefined);
  session.value = null;
  loggedOut.value = true;
}
