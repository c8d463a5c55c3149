/** What surrounds every page: where one can go, whether it is live, in which zone times are, who is logged in. */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { away, tenant } from "../api.ts";
import { connected, wanted } from "../live.ts";
import { address, alter, place } from "../router.ts";
import { logOut, operator, session } from "../session.ts";
import { duration, tick, zone } from "../time.ts";
import { openPalette } from "./palette.tsx";

export const THEMES = ["system", "light", "dark"] as const;
export const theme = signal(localStorage.getItem("theme") ?? "system");

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem("theme", theme.value);
}

export function Bell() {
  return (
    <svg class="bell" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M16 6a7 7 0 0 0-7 7v6l-2 3h18l-2-3v-6a7 7 0 0 0-7-7zm-3 18a3 3 0 0 0 6 0z" />
    </svg>
  );
}

const ICONS: Record<string, string> = {
  "/": "M3 13h8V3H3zm0 8h8v-6H3zm10 0h8V11h-8zm0-18v6h8V3z",
  "/jobs": "M4 5h2v2H4zm4 0h12v2H8zM4 11h2v2H4zm4 0h12v2H8zM4 17h2v2H4zm4 0h12v2H8z",
  "/executions": "M5 3v18l15-9z",
  "/dead-letters": "M12 2 2 20h20zm-1 7h2v5h-2zm0 6.5h2v2h-2z",
  "/fleet": "M4 4h16v6H4zm0 10h16v6H4zM7 6v2h2V6zm0 10v2h2v-2z",
};

export const NAV: { path: string; name: string; group: string; key: string; operators?: boolean }[] = [
  { path: "/", name: "Overview", group: "Now", key: "o" },
  { path: "/jobs", name: "Jobs", group: "Work", key: "j" },
  { path: "/executions", name: "Executions", group: "Work", key: "e" },
  { path: "/dead-letters", name: "Dead letters", group: "Work", key: "d" },
  { path: "/fleet", name: "Workers & shards", group: "Places", key: "w", operators: true },
];

export function Frame({ children }: { children: ComponentChildren }) {
  const here = `/${place.value.path.split("/")[1] ?? ""}`;
  const shown = NAV.filter((item) => !item.operators || operator.value);
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header>
        <a class="brand" href={address("/")}>
          <Bell />
          <span>Tocsin</span>
        </a>
        {tenant.value && <span class="chip">tenant {tenant.value}</span>}
        <button type="button" class="find" onClick={openPalette}>
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M7 1a6 6 0 1 0 3.7 10.7l3.3 3.3 1.4-1.4-3.3-3.3A6 6 0 0 0 7 1zm0 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8z" />
          </svg>
          <span>Find a job, an execution, a page …</span>
          <kbd>Ctrl K</kbd>
        </button>
        <Live />
        <ZoneSwitch />
        <ThemeSwitch />
        <button
          type="button"
          class="quiet who"
          title={`key ${session.value?.key_id}, scopes ${session.value?.scopes.join(", ")}`}
          onClick={() => void logOut()}
        >
          Log out
        </button>
      </header>
      <nav aria-label="Pages">
        {shown.map((item, index) => (
          <div key={item.path}>
            {shown[index - 1]?.group !== item.group && <small>{item.group}</small>}
            <a href={address(item.path)} aria-current={here === item.path ? "page" : undefined}>
              <svg viewBox="0 0 24 24" aria-hidden="true">
                <path d={ICONS[item.path] ?? ""} />
              </svg>
              {item.name}
            </a>
          </div>
        ))}
      </nav>
      <main id="main" tabIndex={-1}>
        <Banner />
        {children}
      </main>
    </div>
  );
}

/** What concerns every page: the database away, a connection that others can listen to. */
function Banner() {
  tick.value;
  const since = away.value ? Date.now() - away.value.since : 0;
  return (
    <>
      {away.value && (
        <p class="banner" role="alert">
          {away.value.words}, since {duration(since)}. What you see is as it was; it goes on by itself.
        </p>
      )}
      {session.value?.warning && <p class="banner warn">{session.value.warning}</p>}
    </>
  );
}

function Live() {
  const words = !wanted.value ? "paused" : connected.value ? "live" : "connecting";
  return (
    <button
      type="button"
      class={`quiet live ${words}`}
      aria-pressed={wanted.value}
      title="Live updates on or off (p)"
      onClick={() => (wanted.value = !wanted.value)}
    >
      <i />
      <span>{words}</span>
    </button>
  );
}

function ZoneSwitch() {
  const choose = (event: Event) => {
    const chosen = (event.currentTarget as HTMLSelectElement).value;
    localStorage.setItem("zone", chosen);
    alter({ zone: chosen, cursor: place.value.query.get("cursor") ?? undefined }, true);
  };
  return (
    <select class="quiet" aria-label="Time zone" value={zone.value} onChange={choose}>
      <option value="local">local time</option>
      <option value="UTC">UTC</option>
      {zone.value !== "local" && zone.value !== "UTC" && <option value={zone.value}>{zone.value}</option>}
    </select>
  );
}

function ThemeSwitch() {
  const next = () => {
    theme.value = THEMES[(THEMES.indexOf(theme.value as "system") + 1) % THEMES.length] ?? "system";
    applyTheme();
  };
  return (
    <button
      type="button"
      class="quiet theme"
      title={`Theme: ${theme.value}`}
      aria-label={`Theme: ${theme.value}`}
      onClick={next}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2v10A5 5 0 0 1 8 3z" />
      </svg>
    </button>
  );
}
