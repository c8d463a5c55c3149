/** A square per local day of the job's zone: what ran, what did not and why, what is expected. Days open as hours. */
import { useState } from "preact/hooks";
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { Mark } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import type { CalendarDay, DayCounts, JobCalendar } from "../plots/lane_types.ts";
import { alter, param } from "../router.ts";
import { mayWrite } from "../session.ts";
import { count, minute, now } from "../time.ts";
import type { Job } from "../types.ts";
import { BackfillDialog } from "./job_backfills.tsx";

const DAY = 86_400_000;
const PAST_DAYS = 119;
const COMING_DAYS = 28;
const WEEKDAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];
/** From the worst to the best: what a square is coloured by where a day had several. */
const KINDS = ["dead", "expired", "skipped", "cancelled", "ran", "expected"] as const;
type Kind = (typeof KINDS)[number];
const MARK: Record<Kind, string> = { dead: "dead", expired: "expired", skipped: "skipped", cancelled: "cancelled", ran: "succeeded", expected: "expected" }; // biome-ignore format: a table

const dateOf = (at: number) => new Date(at).toISOString().slice(0, 10);

export const numberOf = (day: DayCounts, kind: Kind): number =>
  kind === "skipped" ? Object.values(day.skipped).reduce((sum, one) => sum + one, 0) : day[kind];

export function CalendarTab({ job }: { job: Job }) {
  const [range, choose] = useState<[string, string] | null>(null);
  const [asking, ask] = useState(false);
  const from = dateOf(now() - PAST_DAYS * DAY);
  const to = dateOf(now() + COMING_DAYS * DAY);
  const found = useData<JobCalendar>(`/jobs/${job.id}/calendar${query({ from, to })}`);
  const picked = (day: CalendarDay) => range !== null && day.date >= range[0] && day.date <= range[1];
  const pick = (day: CalendarDay, further: boolean) => {
    const ends = further && range ? [range[0], range[1], day.date] : [day.date];
    choose([ends.reduce((a, b) => (a < b ? a : b)), ends.reduce((a, b) => (a > b ? a : b))]);
    alter({ day: further ? undefined : day.date }, true);
  };
  return (
    <section class="card calendar">
      <Part of={found}>
        {({ days, zone }) => (
          <>
            <div class="head wrap">
              <p class="hint">Days of {zone}. Click one to open it; with Shift, choose a range of days.</p>
              <Legend />
            </div>
            <Grid days={days} picked={picked} pick={pick} />
            {range && (
              <p class="actions">
                <b>{range[0] === range[1] ? range[0] : `${range[0]} – ${range[1]}`}</b>
                <Sum days={days.filter(picked)} />
                {mayWrite.value && (
                  <button type="button" onClick={() => ask(true)}>
                    Backfill these days…
                  </button>
                )}
              </p>
            )}
            {asking && range && (
              <BackfillDialog
                job={job}
                range={boundsOf(days.filter(picked))}
                close={() => ask(false)}
                again={found.again}
              />
            )}
          </>
        )}
      </Part>
      {param("day") && <OneDay job={job} date={param("day")} />}
    </section>
  );
}

function Legend() {
  return (
    <div class="legend">
      {KINDS.toReversed().map((kind) => (
        <span key={kind}>
          <i class={`day s-${MARK[kind]} k-${kind}`} /> {kind}
        </span>
      ))}
      <span>
        <i class="day backfilled s-succeeded" /> backfilled
      </span>
      <span>
        <i class="day clock" /> clocks change
      </span>
    </div>
  );
}

interface GridProps {
  days: CalendarDay[];
  picked: (day: CalendarDay) => boolean;
  pick: (day: CalendarDay, further: boolean) => void;
}

/** Weeks as columns, from Monday to Sunday. */
function Grid({ days, picked, pick }: GridProps) {
  const first = days[0];
  if (!first) return null;
  const begins = (day: CalendarDay, index: number) => day.date.endsWith("-01") || index === 0;
  const lead = (new Date(`${first.date}T12:00:00Z`).getUTCDay() + 6) % 7;
  return (
    <div class="days-box">
      <div class="days">
        {WEEKDAYS.map((name) => (
          <small key={name}>{name}</small>
        ))}
        {Array.from({ length: lead }, (_, index) => (
          <i key={index} />
        ))}
        {days.map((day, index) => (
          <Square
            key={day.date}
            day={day}
            picked={picked(day)}
            pick={pick}
            row={begins(day, index) ? (index + lead) % 7 : undefined}
          />
        ))}
      </div>
    </div>
  );
}

interface SquareProps {
  day: CalendarDay;
  picked: boolean;
  pick: GridProps["pick"];
  /** The row of a day that a month begins with: the month is named above its column. */
  row: number | undefined;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function Square({ day, picked, pick, row }: SquareProps) {
  const kinds = KINDS.filter((kind) => numberOf(day, kind) > 0);
  const worst = kinds[0];
  const words = `${day.date}${day.hour_count === 24 ? "" : `, ${day.hour_count} hours`}: ${inWords(day)}`;
  const more = [
    worst ? `s-${MARK[worst]} k-${worst}` : "nothing",
    kinds.length > 1 ? "mixed" : "",
    day.backfilled ? "backfilled" : "",
    picked ? "picked" : "",
    day.date === dateOf(now()) ? "today" : "",
    day.hour_count === 24 ? "" : "clock",
  ];
  return (
    <button
      type="button"
      class={`day ${more.filter(Boolean).join(" ")}`}
      title={words}
      aria-label={words}
      aria-pressed={picked}
      onClick={(event) => pick(day, event.shiftKey)}
    >
      {kinds.length > 1 && (
        <span class="split" aria-hidden="true">
          {kinds.map((kind) => (
            <i key={kind} class={`s-${MARK[kind]}`} style={{ flexGrow: numberOf(day, kind) }} />
          ))}
        </span>
      )}
      {row !== undefined && (
        <span class="month" style={{ top: `${-22 - row * 28}px` }} aria-hidden="true">
          {MONTHS[Number(day.date.slice(5, 7)) - 1]}
        </span>
      )}
    </button>
  );
}

/** The counts of a day in words, with the reasons of what was skipped. */
export function inWords(day: DayCounts): string {
  const skipped = Object.entries(day.skipped).map(
    ([reason, number]) => `${count(number)} skipped (${reason})`,
  );
  const others = (["ran", "dead", "cancelled", "expired", "expected"] as const)
    .filter((kind) => day[kind] > 0)
    .map((kind) => `${count(day[kind])} ${kind}`);
  const backfilled = day.backfilled ? [`${count(day.backfilled)} of them backfilled`] : [];
  return [...others, ...skipped, ...backfilled].join(", ") || "nothing";
}

function Sum({ days }: { days: CalendarDay[] }) {
  const sum: DayCounts = {
    ran: 0,
    dead: 0,
    cancelled: 0,
    expired: 0,
    expected: 0,
    backfilled: 0,
    skipped: {},
  };
  for (const day of days) {
    for (const kind of ["ran", "dead", "cancelled", "expired", "expected", "backfilled"] as const)
      sum[kind] += day[kind];
    for (const [reason, number] of Object.entries(day.skipped))
      sum.skipped[reason] = (sum.skipped[reason] ?? 0) + number;
  }
  return <span>{inWords(sum)}</span>;
}

function boundsOf(days: CalendarDay[]): [number, number] {
  const last = days[days.length - 1];
  const end = last ? Date.parse(last.begins) + last.hour_count * 3_600_000 : now();
  return [days[0] ? Date.parse(days[0].begins) : now() - DAY, Math.min(end, now())];
}

/** A day as its 23, 24 or 25 hours. */
function OneDay({ job, date }: { job: Job; date: string }) {
  const found = useData<JobCalendar>(`/jobs/${job.id}/calendar${query({ from: date, to: date })}`);
  const day = found.data?.days[0];
  if (!day?.hours) return null;
  return (
    <div class="hours">
      <h3>
        {date}{" "}
        <small>
          {day.hour_count} hours · {inWords(day)}
        </small>
      </h3>
      <ol>
        {day.hours.map((hour) => {
          const worst = KINDS.find((kind) => numberOf(hour, kind) > 0);
          return (
            <li key={hour.at} class={worst ? `s-${MARK[worst]}` : ""} title={inWords(hour)}>
              <small>{minute(Date.parse(hour.at))}</small>
              {worst ? <Mark state={MARK[worst]} /> : <span class="none">·</span>}
              <b>{worst ? count(KINDS.reduce((sum, kind) => sum + numberOf(hour, kind), 0)) : ""}</b>
            </li>
          );
        })}
      </ol>
    </div>
  );
}
