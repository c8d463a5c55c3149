/** Where the page is. Every state that another person should see under the same link is in the address, and only there. */
import { computed, signal } from "@preact/signals";
import { abandon, base, tenant } from "./api.ts";

export const place = signal(read());

function read(): { path: string; query: URLSearchParams } {
  const path = location.pathname.slice(base.length) || "/";
  return { path, query: new URLSearchParams(location.search) };
}

export const segments = computed(() => place.value.path.split("/").filter(Boolean).map(decodeURIComponent));

/** A path with the tenant and the zone that are looked at, so that links lead where they seem to. */
export function address(path: string, query: Record<string, string | undefined> = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) given.set(name, value);
  const zone = place.value.query.get("zone");
  if (zone && !given.has("zone")) given.set("zone", zone);
  if (tenant.value && !given.has("tenant")) given.set("tenant", tenant.value);
  const text = given.toString();
  return base + path + (text ? `?${text}` : "");
}

/** A link that the API gave, with the tenant and the zone that are looked at. */
export function linked(link: string): string {
  const [path, text] = link.split("?");
  return address(path ?? "/", Object.fromEntries(new URLSearchParams(text ?? "")));
}

export function go(path: string, query: Record<string, string | undefined> = {}): void {
  visit(address(path, query));
}

export function visit(href: string, replace = false, state: unknown = null): void {
  const samePage = new URL(href, location.href).pathname === location.pathname;
  if (replace) history.replaceState(state, "", href);
  else history.pushState(state, "", href);
  if (!samePage) {
    abandon();
    scrollTo(0, 0);
  }
  arrived();
}

/** Change parameters of the address; undefined removes one. A new filter begins at the first page. */
export function alter(
  changes: Record<string, string | undefined>,
  replace = false,
  state: unknown = null,
): void {
  const query = new URLSearchParams(place.value.query);
  if (!("cursor" in changes)) query.delete("cursor");
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  visit(location.pathname + (text ? `?${text}` : ""), replace, state);
}

/** A part of a path, whatever is in it: names may hold slashes. */
export const part = encodeURIComponent;

/** One parameter of the address, or what stands for it while it is not given. */
export const param = (name: string, otherwise = ""): string => place.value.query.get(name) ?? otherwise;

/** What the address asks of a list, but for these parameters. The zone changes how times are written and nothing else. */
export function asked(...but: string[]): string {
  const query = new URLSearchParams(place.value.query);
  for (const name of ["zone", ...but]) query.delete(name);
  return query.toString();
}

function arrived(): void {
  place.value = read();
  tenant.value = place.value.query.get("tenant") ?? "";
}

/** Follow links inside the page without loading it anew. */
export function start(): void {
  addEventListener("popstate", arrived);
  document.addEventListener("click", (event) => {
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || link.target || link.origin !== location.origin)
      return;
    if (!link.pathname.startsWith(`${base}/`) || link.pathname.startsWith(`${base}/v1/`)) return;
    event.preventDefault();
    visit(link.pathname + link.search);
  });
}
