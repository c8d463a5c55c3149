/** What surrounds every page: where one can go, whether it is live, in which zone times are, who is logged in. */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { away, tenant } from "../api.ts";
import { useData } from "../hooks.ts";
import { showKeys } from "../keyboard.ts";
import { connected, wanted } from "../live.ts";
import { visible } from "../nav.ts";
import { address, alter, param, place } from "../router.ts";
import { logOut, operator, session } from "../session.ts";
import { duration, jobZone, tick, zone } from "../time.ts";
import type { TenantPage } from "../types.ts";
import { Menu } from "./menu.tsx";
import { openPalette } from "./palette.tsx";

const THEMES = ["system", "light", "dark"] as const;
const theme = signal(localStorage.getItem("theme") ?? "system");

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

export function Frame({ children }: { children: ComponentChildren }) {
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header>
        <a class="brand" href={address("/")} aria-label="Tocsin, to the overview">
          <Bell />
          <span>Tocsin</span>
        </a>
        {operator.value && <TenantSwitch />}
        <button type="button" class="find" onClick={openPalette} aria-label="Find">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M7 1a6 6 0 1 0 3.7 10.7l3.3 3.3 1.4-1.4-3.3-3.3A6 6 0 0 0 7 1zm0 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8z" />
          </svg>
          <span>Find a job, an execution, a page …</span>
          <kbd>Ctrl K</kbd>
        </button>
        <Live />
        <ZoneSwitch />
        <ThemeSwitch />
        <Who />
      </header>
      <Pages />
      <main id="main" tabIndex={-1}>
        <Banner />
        {children}
      </main>
    </div>
  );
}

function Pages() {
  const here = `/${place.value.path.split("/")[1] ?? ""}`;
  const shown = visible();
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    const current = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (current && nav.current) nav.current.scrollLeft = current.offsetLeft - 60; // on a phone the pages are a strip
  }, [here]);
  return (
    <nav ref={nav} aria-label="Pages">
      {shown.map((item, index) => (
        <div key={item.path}>
          {shown[index - 1]?.group !== item.group && <small>{item.group}</small>}
          <a
            href={address(item.path)}
            aria-current={here === item.path ? "page" : undefined}
            title={`g ${item.key}`}
          >
            <svg viewBox="0 0 24 24" aria-hidden="true">
              <path d={item.icon} />
            </svg>
            {item.name}
          </a>
        </div>
      ))}
    </nav>
  );
}

/** Whose things an operator sees. It is in the address, so that a link shows the same tenant. */
function TenantSwitch() {
  const own = session.value?.tenant ?? "default";
  const known = useData<TenantPage>("/tenants?limit=100", false);
  const names = new Set([own, tenant.value || own, ...(known.data?.items ?? []).map((one) => one.name)]);
  return (
    <select
      class="quiet tenant"
      aria-label="Tenant"
      value={tenant.value || own}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        alter({ tenant: chosen === own ? undefined : chosen });
      }}
    >
      {[...names].map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
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
          {away.value.words}, since {duration(Math.max(1000, since))}. What you see is as it was; it goes on
          by itself.
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
      aria-label={`Live updates: ${words}`}
      title="Live updates on or off (p)"
      onClick={() => (wanted.value = !wanted.value)}
    >
      <i />
      <span>{words}</span>
    </button>
  );
}

/** UTC, local, or the zone of the job that is looked at. */
function ZoneSwitch() {
  const choose = (chosen: string) => {
    localStorage.setItem("zone", chosen === "UTC" ? "UTC" : "local");
    alter({ zone: chosen, cursor: param("cursor") || undefined }, true);
  };
  const others = new Set(
    [jobZone.value, zone.value].filter((one) => one && one !== "local" && one !== "UTC"),
  );
  return (
    <select
      class="quiet zone"
      aria-label="Time zone"
      value={zone.value}
      onChange={(event) => choose(event.currentTarget.value)}
    >
      <option value="local">local</option>
      <option value="UTC">UTC</option>
      {[...others].map((one) => (
        <option key={one} value={one}>
          {one}
        </option>
      ))}
    </select>
  );
}

function ThemeSwitch() {
  const next = () => {
    theme.value = THEMES[(THEMES.indexOf(theme.value as "system") + 1) % THEMES.length] ?? "system";
    applyTheme();
  };
  const words = `Theme: ${theme.value}`;
  return (
    <button type="button" class="quiet theme" title={words} aria-label={words} onClick={next}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2v10A5 5 0 0 1 8 3z" />
      </svg>
    </button>
  );
}

function Who() {
  const who = session.value;
  const face = (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d="M12 12a5 5 0 1 0 0-10 5 5 0 0 0 0 10zm0 2c-5 0-9 2.5-9 6v2h18v-2c0-3.5-4-6-9-6z" />
    </svg>
  );
  return (
    <Menu label="Who is logged in" class="who" face={face}>
      <dl>
        <dt>Key</dt>
        <dd>
          <code>{who?.key_id}</code>
        </dd>
        <dt>Scopes</dt>
        <dd>{who?.scopes.join(", ")}</dd>
        <dt>Tenant</dt>
        <dd>{who?.tenant}</dd>
        <dt>Version</dt>
        <dd>{who?.version}</dd>
      </dl>
      <a class="button quiet" href={address("/words")}>
        Words and their meaning
      </a>
      <button type="button" class="quiet" onClick={showKeys}>
        Keyboard shortcuts <kbd>?</kbd>
      </button>
      <button type="button" class="quiet" onClick={() => void logOut()}>
        Log out
      </button>
    </Menu>
  );
}
