/** Past, now and coming of many jobs on one axis. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { bind } from "../keyboard.ts";
import { asCurl, Copy } from "../parts/copy.tsx";
import { Chips, Choose, given, isNarrowed, NoMatch, Pages, Search } from "../parts/filters.tsx";
import { Mark } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { type Axis, at, ticks, x } from "../plots/axis.ts";
import { clockChanges } from "../plots/changes.ts";
import { GROUPINGS, rowsOf } from "../plots/groups.ts";
import { useWidth } from "../plots/history.tsx";
import type { Lane, Timeline } from "../plots/lane_types.ts";
import { draw, LANE, nearest } from "../plots/lanes.ts";
import { LoadStrip } from "../plots/load_strip.tsx";
import { address, alter, param } from "../router.ts";
import { clock, day, minute, now, tick, zoneName } from "../time.ts";
import { type Chosen, Detail, fix } from "./fire_detail.tsx";
import { Load } from "./load.tsx";

const FILTERS = ["name", "state", "kind", "queue", "tag"];
/** Filters that a forecast does not know. */
const NOT_FORESEEN = FILTERS.filter((name) => name !== "queue");
const HOUR = 3_600_000;
const SPANS: Record<string, number> = { "5m": HOUR / 12, "15m": HOUR / 4, "1h": HOUR, "6h": 6 * HOUR, "24h": 24 * HOUR, "7d": 168 * HOUR }; // biome-ignore format: a table
/** How much of the range lies in the past while it follows the clock. */
const PAST_SHARE = 0.6;
const HEAD = 22;
const NEAR_PX = 9;

/** The range of the address, or one that goes along with now. */
function useRange(): { from: number; to: number; follows: boolean } {
  const from = Date.parse(param("from"));
  const to = Date.parse(param("to"));
  if (to > from) return { from, to, follows: false };
  tick.value;
  const span = SPANS[param("span", "1h")] ?? HOUR;
  const first = now() - span * PAST_SHARE;
  return { from: first, to: first + span, follows: true };
}

const follow = (span = param("span", "1h")) => alter({ from: undefined, to: undefined, span }, true);

/** Two ways to look at the same: lanes of fires, or the load of the coming day. */
export function Fires() {
  const view = param("view", "lanes");
  return (
    <>
      <div class="tabs" role="tablist">
        {["lanes", "load"].map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            aria-selected={view === name}
            onClick={() => alter({ view: name === "lanes" ? undefined : name })}
          >
            {name}
          </button>
        ))}
      </div>
      {view === "load" ? (
        <>
          <h1>Load</h1>
          <Load />
        </>
      ) : (
        <OnOneAxis />
      )}
    </>
  );
}

function OnOneAxis() {
  const { from, to, follows } = useRange();
  const grain = (to - from) / 20; // what is asked for begins and ends at round times: the same request for a while
  const path = `/timeline${query({
    ...given([...FILTERS, "cursor"]),
    from: new Date(Math.floor(from / grain) * grain).toISOString(),
    to: new Date(Math.ceil(to / grain) * grain).toISOString(),
    sort: "next_fire",
    limit: 50,
  })}`;
  const found = useData<Timeline>(path);
  useLayoutEffect(() => bind({ n: () => follow() }), []);
  const move = (share: number) => fix(from + (to - from) * share, to + (to - from) * share);
  return (
    <>
      <div class="head wrap">
        <h1>Fires</h1>
        <div class="actions">
          <button type="button" aria-label="earlier" onClick={() => move(-0.5)}>
            ◂
          </button>
          <button
            type="button"
            class={follows ? "primary" : ""}
            aria-pressed={follows}
            onClick={() => follow()}
          >
            now
          </button>
          <button type="button" aria-label="later" onClick={() => move(0.5)}>
            ▸
          </button>
          <div class="switch" role="group" aria-label="Span">
            {Object.keys(SPANS).map((name) => (
              <button
                key={name}
                type="button"
                aria-pressed={follows && param("span", "1h") === name}
                onClick={() => follow(name)}
              >
                {name}
              </button>
            ))}
          </div>
        </div>
      </div>
      <div class="filters">
        <Search name="name" label="name contains …" />
        <Choose name="kind" label="kind" options={["recurring", "once"]} />
        <Search name="queue" label="queue" />
        <Search name="tag" label="tag" />
        <Choose name="group" label="group by" options={GROUPINGS} otherwise="job" />
      </div>
      <Chips names={FILTERS} />
      <section class="card list fires">
        <Part of={found}>
          {(data) => (data.lanes.length ? <Lanes timeline={data} from={from} to={to} /> : <Nothing />)}
        </Part>
      </section>
      <div class="foot">
        <Legend />
        <Copy curl={asCurl("GET", path)} />
        <Pages next={found.data?.next_cursor ?? null} />
      </div>
    </>
  );
}

const SHOWN = ["succeeded", "running", "queued", "dead", "skipped", "cancelled", "expired", "expected"];

function Legend() {
  return (
    <div class="legend">
      {SHOWN.map((state) => (
        <span key={state} class={`s-${state}`}>
          <Mark state={state} /> {state}
        </span>
      ))}
      <a href={address("/words")}>what they mean</a>
    </div>
  );
}

function Lanes({ timeline, from, to }: { timeline: Timeline; from: number; to: number }) {
  const [box, width] = useWidth();
  const [chosen, choose] = useState<Chosen | null>(null);
  const [drag, dragged] = useState<{ row: number; begin: number; end: number } | null>(null);
  const axis: Axis = { from, to, width };
  const stepMs = timeline.step_s * 1000;
  const [closed, close] = useState<ReadonlySet<string>>(new Set());
  const by = param("group");
  const rows = useMemo(() => rowsOf(timeline.lanes, by, closed, stepMs), [timeline, by, closed]);
  const { drawn, shift } = useDrawn(axis);
  const turn = (name: string) =>
    close((before) => new Set([...before, name].filter((one) => one !== name || !before.has(name))));
  const height = HEAD + rows.length * LANE + 4;
  const pan = useRef({ from, to });
  pan.current = { from, to };
  usePanning(box, pan);
  const rowAt = (y: number) => Math.floor((y - HEAD) / LANE);
  const release = (end: number) => {
    if (!drag) return;
    const { row, begin } = drag;
    dragged(null);
    const lane = rows[row]?.heading ? undefined : rows[row]?.lane;
    const [low, high] = [at(axis, Math.min(begin, end)), at(axis, Math.max(begin, end))];
    if (Math.abs(end - begin) > 4)
      return lane ? choose({ lane, fire: null, range: [low, high] }) : fix(low, high);
    if (lane) choose({ lane, fire: nearest(lane, low, ((to - from) / width) * NEAR_PX), range: null });
  };
  return (
    <>
      <div class="lanes">
        <ul class="lane-names" style={{ paddingTop: `${HEAD}px` }}>
          {rows.map(({ key, heading, lane }) => (
            <li key={key} class={heading ? "group" : undefined}>
              {heading ? (
                <button type="button" aria-expanded={heading.open} onClick={() => turn(heading.name)}>
                  {heading.open ? "▾" : "▸"} {heading.name} <small>{heading.number}</small>
                </button>
              ) : (
                <a href={address(`/jobs/${lane.job}`)} title={lane.name ?? lane.job}>
                  {lane.name ?? lane.job}
                </a>
              )}
            </li>
          ))}
        </ul>
        <div ref={box} class="plot">
          {width > 0 && (
            <svg
              viewBox={`0 0 ${width} ${height}`}
              width={width}
              height={height}
              role="img"
              aria-label={summaryOf(timeline)}
              onPointerDown={(event) => {
                event.currentTarget.setPointerCapture(event.pointerId);
                dragged({ row: rowAt(event.offsetY), begin: event.offsetX, end: event.offsetX });
              }}
              onPointerMove={(event) => drag && dragged({ ...drag, end: event.offsetX })}
              onPointerUp={(event) => release(event.offsetX)}
            >
              <Ground axis={axis} height={height} />
              {rows.map(({ key, heading, lane }, row) => (
                <LanePaths
                  key={key}
                  lane={lane}
                  row={row}
                  sum={heading !== null}
                  axis={drawn}
                  shift={shift}
                  wide={width}
                  stepMs={stepMs}
                />
              ))}
              <line class="now" x1={x(axis, now())} x2={x(axis, now())} y1={HEAD - 8} y2={height} />
              {drag && <Brush drag={drag} height={height} />}
            </svg>
          )}
        </div>
      </div>
      {width > 0 && !isNarrowed(NOT_FORESEEN) && (
        <LoadStrip axis={axis} queue={param("queue") || undefined} />
      )}
      {chosen && <Detail chosen={chosen} close={() => choose(null)} />}
    </>
  );
}

/** The axis that lanes are drawn along, and by how much they are moved: most moves are smaller than half of the plot. */
function useDrawn(axis: Axis): { drawn: Axis; shift: number } {
  const kept = useRef(axis);
  const { from, to, width } = kept.current;
  const span = axis.to - axis.from;
  const zoomed = Math.abs(to - from - span) > span * 1e-6 || width !== axis.width;
  if (zoomed || Math.abs(axis.from - from) > span / 2) kept.current = axis;
  return { drawn: kept.current, shift: x(axis, kept.current.from) };
}

/** The wheel moves along the axis; with Ctrl it zooms. */
function usePanning(
  box: ReturnType<typeof useWidth>[0],
  range: { current: { from: number; to: number } },
): void {
  useEffect(() => {
    const element = box.current;
    const turn = (event: WheelEvent) => {
      const { from, to } = range.current;
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!sideways && !event.ctrlKey && !event.shiftKey) return; // the page scrolls
      event.preventDefault();
      const turned = sideways ? event.deltaX : event.deltaY;
      if (!event.ctrlKey)
        return fix(from + ((to - from) * turned) / 1000, to + ((to - from) * turned) / 1000);
      const factor = turned > 0 ? 1.2 : 1 / 1.2;
      const pivot = from + ((to - from) * event.offsetX) / (element?.clientWidth ?? 1);
      fix(pivot - (pivot - from) * factor, pivot + (to - pivot) * factor);
    };
    element?.addEventListener("wheel", turn, { passive: false });
    return () => element?.removeEventListener("wheel", turn);
  }, []);
}

function Ground({ axis, height }: { axis: Axis; height: number }) {
  const nowX = x(axis, now());
  const label = axis.to - axis.from > 36 * HOUR ? day : axis.to - axis.from < HOUR / 4 ? clock : minute;
  const changes = clockChanges(zoneName(), axis.from, 1, axis.to);
  return (
    <g class="grid">
      <rect
        class="coming"
        x={Math.max(0, nowX)}
        y={0}
        width={Math.max(0, axis.width - Math.max(0, nowX))}
        height={height}
      />
      {ticks(axis, zoneName(), 92).map((instant) => (
        <g key={instant}>
          <line class="tick" x1={x(axis, instant)} x2={x(axis, instant)} y1={HEAD - 4} y2={height} />
          <text class="label middle" x={Math.min(axis.width - 20, Math.max(20, x(axis, instant)))} y={13}>
            {label(instant)}
          </text>
        </g>
      ))}
      {changes.map((change) => (
        <g key={change.at} class="clock-change">
          <line x1={x(axis, change.at)} x2={x(axis, change.at)} y1={HEAD - 4} y2={height} />
          <title>{`the clock is put ${change.by > 0 ? "forward" : "back"} by ${Math.abs(change.by)} minutes`}</title>
        </g>
      ))}
    </g>
  );
}

interface LaneProps {
  lane: Lane;
  row: number;
  /** Whether it is the sum under a heading. */
  sum: boolean;
  /** What it is drawn along, and by how much that is moved. */
  axis: Axis;
  shift: number;
  wide: number;
  stepMs: number;
}

function LanePaths({ lane, row, sum, axis, shift, wide, stepMs }: LaneProps) {
  const { marks, bars } = useMemo(() => draw(lane, axis, stepMs), [lane, axis, stepMs]);
  return (
    <g transform={`translate(0 ${HEAD + row * LANE})`} data-job={sum ? undefined : lane.job}>
      {sum && <rect class="sum" x={0} y={0} width={wide} height={LANE} />}
      <line class="lane" x1={0} x2={wide} y1={LANE} y2={LANE} />
      <g transform={`translate(${shift.toFixed(1)} 0)`}>
        {[...bars].map(([state, path]) => (
          <path key={`bar ${state}`} class={`band s-${state}`} d={path} />
        ))}
        {[...marks].map(([state, path]) => (
          <path key={state} class={`fire s-${state}`} data-state={state} d={path} />
        ))}
      </g>
    </g>
  );
}

function Brush({ drag, height }: { drag: { row: number; begin: number; end: number }; height: number }) {
  const all = drag.row < 0;
  return (
    <rect
      class="brush"
      x={Math.min(drag.begin, drag.end)}
      width={Math.abs(drag.end - drag.begin)}
      y={all ? 0 : HEAD + drag.row * LANE}
      height={all ? height : LANE}
    />
  );
}

function summaryOf(timeline: Timeline): string {
  const names = timeline.lanes.map((lane) => {
    const fires = lane.fires?.length ?? lane.bands?.length ?? 0;
    return `${lane.name ?? lane.job}: ${fires}${lane.bands ? " bands" : " fires"}`;
  });
  return `fires of ${timeline.lanes.length} jobs; ${names.slice(0, 10).join(", ")}`;
}

function Nothing() {
  if (isNarrowed(FILTERS)) return <NoMatch what="job" names={FILTERS} />;
  return (
    <Empty title="Nothing is scheduled yet">
      <p>Each job has a lane here: what it did on the left of now, what is expected of it on the right.</p>
    </Empty>
  );
}
