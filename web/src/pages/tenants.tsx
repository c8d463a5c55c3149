/** Who shares the fleet, with which weight and limits. For operators. */
import { useEffect, useState } from "preact/hooks";
import { ask, post, query } from "../api.ts";
import { useData } from "../hooks.ts";
import { wanted } from "../live.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Dialog, say } from "../parts/dialog.tsx";
import { given, Pages } from "../parts/filters.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { address, go, part } from "../router.ts";
import { count, duration } from "../time.ts";
import type { AuditPage, Limits, Summary, Tenant, TenantPage } from "../types.ts";
import { Entries } from "./audit.tsx";
import { Tile } from "./overview.tsx";

const LIMITS: [keyof Limits, string][] = [
  ["pending_jobs", "jobs"],
  ["in_flight", "executions in flight"],
  ["fires_per_second", "fires a second"],
  ["requests_per_second", "requests a second"],
  ["request_burst", "burst of requests"],
  ["payload_bytes", "bytes of a body"],
  ["min_interval", "shortest interval"],
  ["history_days", "days of history"],
];

export function Tenants({ id }: { id?: string }) {
  return id ? <One name={id} /> : <All />;
}

function All() {
  const page = useData<TenantPage>(`/tenants${query({ ...given(["cursor"]), limit: 50 })}`);
  const [creating, create] = useState(false);
  return (
    <>
      <div class="head">
        <h1>Tenants</h1>
        <button type="button" class="primary" onClick={() => create(true)}>
          New tenant
        </button>
      </div>
      <section class="card list">
        <Part of={page}>
          {(data) => (
            <Table
              label="Tenants"
              rows={data.items}
              columns={COLUMNS}
              id={(one) => one.name}
              href={(one) => address(`/tenants/${part(one.name)}`)}
              pale={(one) => one.state !== "active"}
            />
          )}
        </Part>
      </section>
      <div class="foot">
        <Copy curl={asCurl("GET", "/tenants")} cli={asCli("tenants", "list")} />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
      {creating && <NewTenant close={() => create(false)} />}
    </>
  );
}

const COLUMNS: Column<Tenant>[] = [
  {
    name: "Name",
    kind: "name",
    show: (one) => <a href={address(`/tenants/${part(one.name)}`)}>{one.name}</a>,
  },
  {
    name: "State",
    show: (one) => <State state={one.state === "active" ? "active" : "paused"} word={one.state} />,
  },
  { name: "Weight", kind: "number", show: (one) => one.weight },
  { name: "Limits", kind: "words", show: (one) => limitsInWords(one.limits_in_force) },
  { name: "Since", show: (one) => <Time at={one.created_at} far /> },
  { name: "Look", show: (one) => <a href={address("/", { tenant: one.name })}>see as this tenant</a> },
];

function limitsInWords(limits: Limits): string {
  const set = LIMITS.filter(([name]) => limits[name] !== null).map(
    ([name, words]) => `${limits[name]} ${words}`,
  );
  return set.join(" · ") || "none";
}

function NewTenant({ close }: { close: () => void }) {
  const [name, call] = useState("");
  const [weight, weigh] = useState("1");
  const act = async () => {
    await post("/tenants", { name, weight: Number(weight) || 1 });
    go(`/tenants/${part(name)}`);
  };
  return (
    <Dialog title="New tenant" action="Create" close={close} act={act} not={!name}>
      <label>
        Name
        <input value={name} maxLength={200} onInput={(event) => call(event.currentTarget.value)} />
      </label>
      <label>
        Weight: its share of the workers when all are busy
        <input type="number" min={1} value={weight} onInput={(event) => weigh(event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}

function One({ name }: { name: string }) {
  const path = `/tenants/${part(name)}`;
  const found = useData<Tenant>(path);
  const trail = useData<AuditPage>(`/audit${query({ object: `tenant:${name}`, limit: 20 })}`, false);
  const [asked, ask] = useState<"limits" | "suspend" | "resume" | null>(null);
  const close = () => ask(null);
  const again = () => {
    found.again();
    trail.again();
  };
  return (
    <>
      <p class="crumbs">
        <a href={address("/tenants")}>Tenants</a>
      </p>
      <Part of={found} title="Tenant">
        {(tenant) => (
          <>
            <div class="head wrap">
              <h1>
                {tenant.name}{" "}
                <State state={tenant.state === "active" ? "active" : "paused"} word={tenant.state} />
              </h1>
              <div class="actions">
                <a class="button" href={address("/", { tenant: name })}>
                  See as this tenant
                </a>
                <button type="button" onClick={() => ask("limits")}>
                  Change…
                </button>
                {tenant.state === "active" ? (
                  <button type="button" class="danger" onClick={() => ask("suspend")}>
                    Suspend…
                  </button>
                ) : (
                  <button type="button" class="primary" onClick={() => ask("resume")}>
                    Resume…
                  </button>
                )}
              </div>
            </div>
            {tenant.state_reason && <p class="warning">{tenant.state_reason}</p>}
            <Use name={name} />
            <section class="card">
              <h2>Weight and limits</h2>
              <dl class="facts">
                <dt>weight</dt>
                <dd>{tenant.weight}</dd>
                {LIMITS.map(([limit, words]) => (
                  <Limit
                    key={limit}
                    words={words}
                    own={tenant.limits[limit]}
                    inForce={tenant.limits_in_force[limit]}
                  />
                ))}
              </dl>
            </section>
            <section class="card list">
              <div class="head">
                <h2>What was changed</h2>
              </div>
              <Part of={trail}>{(page) => <Entries items={page.items} withObject={false} />}</Part>
            </section>
            <Copy curl={asCurl("GET", path)} cli={asCli("tenants", "show", name)} />
            {asked === "limits" && <Change tenant={tenant} close={close} again={again} />}
            {asked === "suspend" && <Suspend name={name} close={close} again={again} />}
            {asked === "resume" && (
              <Dialog
                title={`Resume ${name}`}
                action="Resume"
                close={close}
                act={async () => {
                  await post(`${path}/resume`);
                  say("Resumed.");
                  again();
                }}
              >
                <p>Its keys work again, and what waited fires: misfire policies decide what is still run.</p>
              </Dialog>
            )}
          </>
        )}
      </Part>
    </>
  );
}

const LOOK_MS = 5000;

/** What it does, beside what it may. Each number leads to what it counts, seen as this tenant. */
function Use({ name }: { name: string }) {
  const use = useSummaryOf(name);
  if (!use) return null;
  const ended = Object.values(use.ended_1h).reduce((sum, n) => sum + n, 0);
  const to = (path: string, filters = {}) => address(path, { tenant: name, ...filters });
  const { recurring_jobs: jobs, running, due, dead_24h: dead } = use;
  return (
    <div class="tiles">
      <Tile
        name="Recurring jobs"
        value={count(jobs.count, jobs.capped)}
        note={`${count(use.paused.jobs.count, use.paused.jobs.capped)} paused`}
        href={to("/jobs", { kind: "recurring" })}
      />
      <Tile
        name="Running"
        value={count(running.count, running.capped)}
        note={`${count(ended)} ended in 1 h`}
        href={to("/executions", { state: "running" })}
      />
      <Tile
        name="Due"
        value={count(due.count, due.capped)}
        note={due.oldest_ms === null ? "nothing waits" : `oldest ${duration(due.oldest_ms)}`}
        href={to("/executions", { state: "queued" })}
      />
      <Tile
        name="Dead, 24 h"
        value={count(dead.count, dead.capped)}
        note={dead.count ? "see why" : "nothing failed for good"}
        href={to("/dead-letters")}
        bad={dead.count > 0}
      />
    </div>
  );
}

/** The numbers of another tenant than the one that is looked at. */
function useSummaryOf(name: string): Summary | null {
  const [summary, tell] = useState<Summary | null>(null);
  useEffect(() => {
    const look = () =>
      ask<Summary>("GET", "/stats/summary", { headers: { "Tocsin-Tenant": name } })
        .then(tell)
        .catch(() => undefined); // the numbers of before stay; the page around them says what is wrong
    void look();
    const timer = setInterval(() => !document.hidden && wanted.value && void look(), LOOK_MS);
    return () => clearInterval(timer);
  }, [name]);
  return summary;
}

type Value = string | number | null;

function Limit({ words, own, inForce }: { words: string; own: Value; inForce: Value }) {
  return (
    <>
      <dt>{words}</dt>
      <dd>
        {inForce === null ? (
          <span class="none">no limit</span>
        ) : typeof inForce === "number" ? (
          count(inForce)
        ) : (
          inForce
        )}
        {own === null && inForce !== null && <small> the installation's</small>}
      </dd>
    </>
  );
}

function Change({ tenant, close, again }: { tenant: Tenant; close: () => void; again: () => void }) {
  const [weight, weigh] = useState(String(tenant.weight));
  const [limits, limit] = useState<Record<string, string>>(() =>
    Object.fromEntries(LIMITS.map(([name]) => [name, String(tenant.limits[name] ?? "")])),
  );
  const act = async () => {
    const changed = LIMITS.filter(([name]) => limits[name] !== String(tenant.limits[name] ?? ""));
    const body = {
      weight: Number(weight),
      limits: Object.fromEntries(changed.map(([name]) => [name, limitOf(name, limits[name] ?? "")])),
    };
    await ask("PATCH", `/tenants/${part(tenant.name)}`, { body });
    say("Saved.");
    again();
  };
  return (
    <Dialog title={`Weight and limits of ${tenant.name}`} action="Save" wide close={close} act={act}>
      <p>An empty field lets the installation's default apply.</p>
      <div class="fields">
        <label>
          weight
          <input type="number" min={1} value={weight} onInput={(event) => weigh(event.currentTarget.value)} />
        </label>
        {LIMITS.map(([name, words]) => (
          <label key={name}>
            {words}
            <input
              value={limits[name]}
              onInput={(event) => limit({ ...limits, [name]: event.currentTarget.value })}
            />
          </label>
        ))}
      </div>
    </Dialog>
  );
}

const limitOf = (name: string, text: string) =>
  text === "" ? null : name === "min_interval" ? text : Number(text);

function Suspend({ name, close, again }: { name: string; close: () => void; again: () => void }) {
  const [reason, tell] = useState("");
  const act = async () => {
    await post(`/tenants/${part(name)}/suspend`, reason ? { reason } : {});
    say("Suspended.");
    again();
  };
  return (
    <Dialog title={`Suspend ${name}?`} action="Suspend" danger close={close} act={act}>
      <p>
        Its keys and sessions are refused at once, and its fires wait. What runs goes on. Nothing is lost.
      </p>
      <label>
        Why? Others will read it.
        <input value={reason} maxLength={500} onInput={(event) => tell(event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}
