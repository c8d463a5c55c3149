/** Is it on time, what is broken, what comes next. */
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { justNow } from "../live.ts";
import { Mark, Time } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { HistoryPlot } from "../plots/history.tsx";
import { address, alter, place } from "../router.ts";
import { count, duration, now } from "../time.ts";
import type { ComingFires, ExecutionPage, Need, Series, Summary } from "../types.ts";
import { FirstRun } from "./first_run.tsx";

const SPANS: Record<string, number> = {
  "5m": 300_000,
  "15m": 900_000,
  "1h": 3_600_000,
  "6h": 21_600_000,
  "24h": 86_400_000,
};

export function Overview() {
  const span = place.value.query.get("span") ?? "15m";
  const spanMs = SPANS[span] ?? 900_000;
  const summary = useData<Summary>("/stats/summary");
  const from = new Date(Math.floor((now() - spanMs) / 60_000) * 60_000).toISOString();
  const series = useData<Series>(`/stats/series${query({ from })}`);
  const upcoming = useData<ComingFires>(`/upcoming${query({ limit: 200 })}`);
  const empty = summary.data && nothingYet(summary.data) && upcoming.data?.items.length === 0;
  return (
    <>
      <h1>Overview</h1>
      {empty ? <FirstRun /> : null}
      <Part of={summary}>{(data) => <Tiles summary={data} />}</Part>
      <section class="card">
        <div class="head wrap">
          <h2>Past, now and coming</h2>
          <div class="switch" role="group" aria-label="How far back">
            {Object.keys(SPANS).map((name) => (
              <button
                key={name}
                type="button"
                aria-pressed={name === span}
                onClick={() => alter({ span: name }, true)}
              >
                {name}
              </button>
            ))}
          </div>
        </div>
        <Part of={series}>
          {(data) => <HistoryPlot series={data} coming={upcoming.data?.items ?? []} spanMs={spanMs} />}
        </Part>
      </section>
      <div class="columns">
        <section class="card">
          <h2>Needs you</h2>
          <Part of={summary}>{(data) => <Needs needs={data.needs_you} />}</Part>
        </section>
        <section class="card">
          <h2>Next</h2>
          <Part of={upcoming}>{(data) => <Next fires={data} />}</Part>
        </section>
        <section class="card">
          <h2>Just now</h2>
          <JustNow />
        </section>
      </div>
    </>
  );
}

const nothingYet = (summary: Summary) =>
  summary.recurring_jobs.count === 0 &&
  Object.values(summary.ended).every((n) => n === 0) &&
  summary.due.count === 0;

function Tiles({ summary }: { summary: Summary }) {
  const { late, running, due, dead_24h, ended } = summary;
  const total = Object.values(ended).reduce((sum, n) => sum + n, 0);
  const hour = summary.window_s >= 3600 ? "1 h" : duration(summary.window_s * 1000);
  const share =
    late.on_time === null
      ? "–"
      : `${(late.on_time * 100).toFixed(late.on_time > 0.9995 || late.on_time === 0 ? 0 : 2)} %`;
  return (
    <div class="tiles">
      <Tile
        name="On time"
        value={share}
        note={`within 1 s, ${hour}`}
        href={address("/executions", { min_lag: "1s" })}
        bad={late.on_time !== null && late.on_time < 0.99}
      />
      <Tile
        name="Late p99"
        value={late.p99_ms === null ? "–" : duration(late.p99_ms)}
        note={`p50 ${late.p50_ms === null ? "–" : duration(late.p50_ms)}`}
        href={address("/executions")}
        bad={(late.p99_ms ?? 0) > 1000}
      />
      <Tile
        name="Running"
        value={count(running.count, running.capped)}
        note={`${count(total)} ended in ${hour}`}
        href={address("/executions", { state: "running" })}
      />
      <Tile
        name="Due"
        value={count(due.count, due.capped)}
        note={due.oldest_ms === null ? "nothing waits" : `oldest ${duration(due.oldest_ms)}`}
        href={address("/executions", { state: "queued" })}
        bad={(due.oldest_ms ?? 0) > 5000}
      />
      <Tile
        name="Dead, 24 h"
        value={count(dead_24h.count, dead_24h.capped)}
        note={dead_24h.count ? "see why" : "nothing failed for good"}
        href={address("/dead-letters")}
        bad={dead_24h.count > 0}
      />
      <Tile
        name="Recurring jobs"
        value={count(summary.recurring_jobs.count, summary.recurring_jobs.capped)}
        note={`${count(summary.paused_jobs.count, summary.paused_jobs.capped)} paused`}
        href={address("/jobs", { kind: "recurring" })}
      />
    </div>
  );
}

function Tile({
  name,
  value,
  note,
  href,
  bad = false,
}: {
  name: string;
  value: string;
  note: string;
  href: string;
  bad?: boolean;
}) {
  return (
    <a class={bad ? "tile bad" : "tile"} href={href}>
      <small>{name}</small>
      <strong>{value}</strong>
      <span>{note}</span>
    </a>
  );
}

const KIND_MARK: Record<Need["kind"], string> = {
  dead: "dead",
  overdue: "warn",
  late: "expired",
  node: "warn",
  paused: "paused",
};

function Needs({ needs }: { needs: Need[] }) {
  if (!needs.length) {
    return (
      <p class="calm">
        <Mark state="succeeded" /> Nothing needs you.
      </p>
    );
  }
  return (
    <ul class="lines">
      {needs.map((need) => (
        <li key={need.kind + need.text}>
          <a href={withPlace(need.link)}>
            <Mark state={KIND_MARK[need.kind]} />
            <span class="grow">
              {need.kind === "dead" && <b>{count(need.count)} × </b>}
              {need.text}
            </span>
            {need.since && <Time at={need.since} far />}
          </a>
        </li>
      ))}
    </ul>
  );
}

function withPlace(link: string): string {
  const [path, text] = link.split("?");
  return address(path ?? "/", Object.fromEntries(new URLSearchParams(text ?? "")));
}

function Next({ fires }: { fires: ComingFires }) {
  if (!fires.items.length) return <p class="calm">Nothing is scheduled.</p>;
  return (
    <ul class="lines">
      {fires.items.slice(0, 8).map((fire) => (
        <li key={fire.at + fire.job_id}>
          <a href={address(`/jobs/${fire.job_id}`)}>
            <Mark state={fire.attempt > 1 ? "queued" : "expected"} />
            <span class="grow name">{fire.name ?? fire.job_id}</span>
            {fire.attempt > 1 && <small>attempt {fire.attempt}</small>}
            <Time at={fire.at} far />
          </a>
        </li>
      ))}
    </ul>
  );
}

function JustNow() {
  const past = useData<ExecutionPage>(`/executions${query({ limit: 10, state: "succeeded" })}`, false);
  const earlier = (past.data?.items ?? [])
    .filter((item) => item.finished_at)
    .map((item) => ({ ...item, name: item.job_name, late_ms: item.lag_ms, at: item.finished_at! }));
  const told = new Set(justNow.value.map((item) => item.id));
  const items = [...justNow.value, ...earlier.filter((item) => !told.has(item.id))];
  if (!items.length) return <p class="calm">Nothing has run yet.</p>;
  return (
    <ul class="lines" aria-live="off">
      {items.slice(0, 8).map((item) => (
        <li key={item.id + item.at}>
          <a href={address(`/executions/${item.id}`)}>
            <Mark state={item.state} title={item.state} />
            <span class="grow name">{item.name ?? item.job_id}</span>
            <small>
              {item.state === "succeeded"
                ? item.late_ms === null
                  ? ""
                  : `late ${duration(item.late_ms)}`
                : (item.reason ?? item.state)}
            </small>
            <Time at={item.at} far />
          </a>
        </li>
      ))}
    </ul>
  );
}
