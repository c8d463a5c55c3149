/** Is it on time, what is broken, what comes next. */
import { query } from "../api.ts";
import { dismiss, isDismissed, recall } from "../dismissed.ts";
import { useData } from "../hooks.ts";
import { justNow } from "../live.ts";
import { Choose } from "../parts/filters.tsx";
import { Mark, Time } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { useQueues } from "../parts/qualified.tsx";
import { MOST_COMING } from "../plots/ahead.ts";
import { FUTURE_SHARE, HistoryPlot } from "../plots/history.tsx";
import { LatePlot } from "../plots/late.tsx";
import { address, alter, linked, param, place } from "../router.ts";
import { count, duration, now } from "../time.ts";
import type { ComingFires, ExecutionPage, Forecast, LagMap, Need, Series, Summary } from "../types.ts";
import { FirstRun } from "./first_run.tsx";

const SPANS: Record<string, number> = {
  "5m": 300_000,
  "15m": 900_000,
  "1h": 3_600_000,
  "6h": 21_600_000,
  "24h": 86_400_000,
};

/** The map of lateness is looked at more rarely than the rest: it changes by whole steps. */
const LATE_MS = 15_000;

export function Overview() {
  const span = place.value.query.get("span") ?? "15m";
  const spanMs = SPANS[span] ?? 900_000;
  const summary = useData<Summary>("/stats/summary");
  const from = new Date(Math.floor((now() - spanMs) / 60_000) * 60_000).toISOString();
  const queue = param("queue") || undefined;
  const series = useData<Series>(`/stats/series${query({ from, queue })}`);
  const late = useData<LagMap>(`/stats/lag${query({ from, queue })}`, true, LATE_MS);
  const upcoming = useData<ComingFires>(`/upcoming${query({ limit: MOST_COMING })}`);
  const foreseen = useData<Forecast>(`/forecast${query({ ...comingRange(spanMs), queue })}`, true, LATE_MS);
  const empty = summary.data && nothingYet(summary.data) && upcoming.data?.items.length === 0;
  return (
    <>
      <h1>Overview</h1>
      {empty ? <FirstRun /> : null}
      <Part of={summary}>{(data) => <Tiles summary={data} />}</Part>
      <section class="card">
        <div class="head wrap">
          <h2 class="grow">Past, now and coming</h2>
          <Choose name="queue" label="queue" options={useQueues()} otherwise="all" names />
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
          {(data) => (
            <HistoryPlot
              series={data}
              coming={queue ? null : (upcoming.data?.items ?? [])}
              forecast={foreseen.data}
              spanMs={spanMs}
            />
          )}
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
      <section class="card">
        <h2>How late executions started{queue && ` in ${queue}`}</h2>
        <Part of={late}>{(data) => <LatePlot map={data} spanMs={spanMs} />}</Part>
      </section>
    </>
  );
}

/** What is ahead of now on the plot, in whole minutes. */
function comingRange(spanMs: number): { from: string; to: string } {
  const [from, minutes] = [
    Math.floor(now() / 60_000) * 60_000,
    Math.ceil((spanMs * FUTURE_SHARE) / 60_000) + 1,
  ];
  return { from: new Date(from).toISOString(), to: new Date(from + minutes * 60_000).toISOString() };
}

const nothingYet = (summary: Summary) =>
  summary.recurring_jobs.count === 0 &&
  Object.values(summary.ended_1h).every((n) => n === 0) &&
  summary.due.count === 0;

function Tiles({ summary }: { summary: Summary }) {
  const { late_1h: late, on_time_1h: onTime, running, due, dead_24h, ended_1h } = summary;
  const total = Object.values(ended_1h).reduce((sum, n) => sum + n, 0);
  const share =
    onTime === null ? "–" : `${(onTime * 100).toFixed(onTime > 0.9995 || onTime === 0 ? 0 : 2)} %`;
  return (
    <div class="tiles">
      <Tile
        name="On time"
        value={share}
        note="within 1 s, 1 h"
        href={address("/executions", { min_lag: "1s" })}
        bad={onTime !== null && onTime < 0.99}
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
        note={`${count(total)} ended in 1 h`}
        href={address("/executions", { state: "running" })}
      />
      <Tile
        name="Due"
        value={count(due.count, due.capped)}
        note={waitingFor(summary)}
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
        note={`${count(summary.paused.jobs.count, summary.paused.jobs.capped)} paused`}
        href={address("/jobs", { kind: "recurring" })}
      />
    </div>
  );
}

/** How long the oldest waits; and, where queues are paused, that a user wants it to. */
function waitingFor({ due, paused }: Summary): string {
  if (due.oldest_ms === null) return "nothing waits";
  const queues = paused.queues === 1 ? ", a queue is paused" : `, ${count(paused.queues)} queues are paused`;
  return `oldest ${duration(due.oldest_ms)}${paused.queues ? queues : ""}`;
}

export function Tile({
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
  alert: "dead",
  key: "expired",
  dead: "dead",
  overdue: "warn",
  late: "expired",
  node: "warn",
  paused: "paused",
};

function Needs({ needs: all }: { needs: Need[] }) {
  const needs = all.filter((need) => !isDismissed(need));
  const hidden = all.length - needs.length;
  if (!needs.length) {
    return (
      <p class="calm">
        <Mark state="succeeded" /> Nothing needs you. {hidden > 0 && <Dismissed number={hidden} />}
      </p>
    );
  }
  return (
    <ul class="lines">
      {needs.map((need) => (
        <li key={need.kind + need.text}>
          <a href={linked(need.link)}>
            <Mark state={KIND_MARK[need.kind]} />
            <span class="grow few-lines" title={need.text}>
              {need.kind === "dead" && <b>{count(need.count)} × </b>}
              {need.text}
            </span>
            {need.since && <Time at={need.since} far />}
          </a>
          <button
            type="button"
            class="quiet dismiss"
            aria-label={`Dismiss for a day: ${need.text}`}
            title="Dismiss for a day, in this browser"
            onClick={() => dismiss(need)}
          >
            ✕
          </button>
        </li>
      ))}
      {hidden > 0 && (
        <li class="hint">
          <Dismissed number={hidden} />
        </li>
      )}
    </ul>
  );
}

function Dismissed({ number }: { number: number }) {
  return (
    <button type="button" class="link" onClick={recall}>
      show {number} dismissed
    </button>
  );
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
  const well = useData<ExecutionPage>(`/executions${query({ limit: 10, state: "succeeded" })}`, false);
  const dead = useData<ExecutionPage>(`/executions${query({ limit: 10, state: "dead" })}`, false);
  const earlier = [...(well.data?.items ?? []), ...(dead.data?.items ?? [])]
    .filter((item) => item.finished_at)
    .toSorted((a, b) => Date.parse(b.finished_at!) - Date.parse(a.finished_at!))
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
            {item.state === "succeeded" ? (
              <small class="lag" title="how late it started">
                {item.late_ms === null ? "" : `+${duration(Math.max(0, item.late_ms))}`}
              </small>
            ) : (
              <small>{item.reason ?? item.state}</small>
            )}
            <Time at={item.at} far />
          </a>
        </li>
      ))}
    </ul>
  );
}
