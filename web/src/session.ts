/** Who is logged in. The key is handed over and forgotten; the browser keeps a cookie that no script can read. */
import { computed, signal } from "@preact/signals";
import { get, loggedOut, post, Refused, remove } from "./api.ts";
import { heardNow } from "./time.ts";
import type { SessionView } from "./types.ts";

export const session = signal<SessionView | null>(null);
export const refusal = signal<string | null>(null);
/** Null while it is not known yet. */
export const known = signal(false);
/** Whether a user was logged in since the page was loaded. */
let met = false;

export const mayWrite = computed(() => has("write"));
export const operator = computed(() => session.value?.scopes.includes("admin") ?? false);

function has(scope: "read" | "write"): boolean {
  return (session.value?.scopes.includes(scope) ?? false) || operator.value;
}

const ticketOf = () => /^#ticket=([\w-]+)$/.exec(location.hash)?.[1];

/**
 * Learn who we are, by the ticket in the address first. It stands behind `#`, and leaves the address at once. A link that is
 * opened where the page is already open changes nothing but that part: the page begins anew with it.
 */
export async function begin(): Promise<void> {
  addEventListener("hashchange", () => ticketOf() && location.reload());
  const ticket = ticketOf();
  if (ticket) {
    history.replaceState(null, "", location.pathname + location.search);
    await logIn({ ticket });
  } else await look();
}

export async function logIn(by: { key: string } | { ticket: string }): Promise<void> {
  refusal.value = null;
  try {
    await post("/session", by);
    if (met) location.reload(); // nothing that the one before saw stays with the next one
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
    met = true;
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
