/** Past, now and coming on one axis: how executions ended by state, how late they started, what is expected. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { clock, count, duration, minute, now, tick, zoneName } from "../time.ts";
import type { ComingFire, Forecast, Series } from "../types.ts";
import { ahead, type Stretch } from "./ahead.ts";
import { type Axis, roundUp, ticks, x } from "./axis.ts";

const STATES = ["succeeded", "skipped", "cancelled", "expired", "dead"] as const;
type Bucket = Record<(typeof STATES)[number], number> & {
  at: string;
  p50_ms: number | null;
  p99_ms: number | null;
};
const TOP = 14;
const BARS = 120;
const GAP = 18;
const LATE = 44;
const HEIGHT = TOP + BARS + GAP + LATE + 22;
/** How much of the span is ahead of now, beside it. */
export const FUTURE_SHARE = 0.25;

export function useWidth(): [RefObject<HTMLDivElement | null>, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, set] = useState(0);
  useEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(([entry]) => set(Math.floor(entry?.contentRect.width ?? 0)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}

interface Props {
  series: Series;
  coming: ComingFire[] | null;
  forecast: Forecast | null;
  spanMs: number;
}

export function HistoryPlot({ series, coming, forecast, spanMs }: Props) {
  const [box, width] = useWidth();
  const [pointed, point] = useState<number | null>(null);
  tick.value;
  const to = now() + spanMs * FUTURE_SHARE;
  const axis: Axis = { from: now() - spanMs, to, width };
  const step = series.step_s * 1000;
  const expected = ahead(coming, forecast, now(), step);
  const items = bucketsOf(series);
  const most = Math.max(1, ...items.map(total), ...expected.map((one) => one.number));
  const top = roundUp(most);
  const latest = roundUp(Math.max(1, ...items.map((bucket) => bucket.p99_ms ?? 0)));
  const nowX = x(axis, now());
  const shown = pointed === null ? null : items.find((bucket) => within(bucket, pointed, step));
  return (
    <figure class="plot">
      <figcaption>
        <Legend shown={shown ?? null} step={series.step_s} />
      </figcaption>
      <div ref={box}>
        {width > 0 && (
          <svg
            viewBox={`0 0 ${width} ${HEIGHT}`}
            width={width}
            height={HEIGHT}
            role="img"
            aria-label={summaryOf(items, coming)}
            onPointerMove={(event) => point(axis.from + (event.offsetX / width) * (axis.to - axis.from))}
            onPointerLeave={() => point(null)}
          >
            <rect
              class="coming"
              x={nowX}
              y={TOP}
              width={Math.max(0, width - nowX)}
              height={BARS + GAP + LATE}
            />
            <Grid axis={axis} top={top} />
            {STATES.map((state) => (
              <path key={state} class={`bar s-${state}`} d={bars(items, state, axis, step, top)} />
            ))}
            <path class="bar s-expected" d={expected.map((one) => block(one, 0, axis, top)).join("")} />
            <path class="line p99" d={line(items, "p99_ms", axis, step, latest)} />
            <path class="line p50" d={line(items, "p50_ms", axis, step, latest)} />
            <text class="label" x={4} y={TOP + BARS + GAP + 8}>
              late, up to {duration(latest)}
            </text>
            <line class="now" x1={nowX} x2={nowX} y1={TOP - 6} y2={TOP + BARS + GAP + LATE} />
            <text class="label" x={nowX + 4} y={TOP - 4}>
              now
            </text>
            {pointed !== null && <Cross axis={axis} at={pointed} />}
          </svg>
        )}
      </div>
    </figure>
  );
}

/** The buckets in which something ended, each with its counts by state. */
function bucketsOf(series: Series): Bucket[] {
  const by = new Map(series.series.map((one) => [one.key, one.fires]));
  return series.at.flatMap((at, place) => {
    if (!series.total.fires[place]) return [];
    const of = (state: string) => by.get(state)?.[place] ?? 0;
    const [succeeded, skipped, cancelled] = [of("succeeded"), of("skipped"), of("cancelled")];
    const p50_ms = series.total.p50_ms[place] ?? null;
    const p99_ms = series.total.p99_ms[place] ?? null;
    return [{ at, succeeded, skipped, cancelled, expired: of("expired"), dead: of("dead"), p50_ms, p99_ms }];
  });
}

const total = (bucket: Bucket) => STATES.reduce((sum, state) => sum + bucket[state], 0);
const within = (bucket: Bucket, at: number, step: number) =>
  Date.parse(bucket.at) <= at && at < Date.parse(bucket.at) + step;

/** One path for all buckets of a state, stacked on the states before it: an element per bucket would be slow. */
function bars(
  items: Bucket[],
  state: (typeof STATES)[number],
  axis: Axis,
  step: number,
  top: number,
): string {
  const below = STATES.slice(0, STATES.indexOf(state));
  let path = "";
  for (const bucket of items) {
    if (!bucket[state]) continue;
    const start = below.reduce((sum, one) => sum + bucket[one], 0);
    path += block({ at: Date.parse(bucket.at), number: bucket[state], ms: step }, start, axis, top);
  }
  return path;
}

function block({ at, number, ms }: Stretch, start: number, axis: Axis, top: number): string {
  const left = Math.max(0, x(axis, at));
  const right = Math.min(axis.width, x(axis, at + ms));
  const wide = Math.max(1, right - left - (right - left > 3 ? 1 : 0));
  if (right <= 0 || left >= axis.width) return "";
  const high = Math.max(1.5, (number / top) * BARS);
  const base = TOP + BARS - (start / top) * BARS;
  return `M${left.toFixed(1)} ${base.toFixed(1)}v${(-high).toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}z`;
}

function line(items: Bucket[], of: "p50_ms" | "p99_ms", axis: Axis, step: number, most: number): string {
  const base = TOP + BARS + GAP + LATE;
  let path = "";
  let before = Number.NaN;
  for (const bucket of items) {
    const value = bucket[of];
    const at = Date.parse(bucket.at) + step / 2;
    if (value === null || at < axis.from) continue;
    const joined = at - before <= 4 * step;
    path += `${joined ? "L" : "M"}${x(axis, at).toFixed(1)} ${(base - (Math.min(value, most) / most) * (LATE - 12)).toFixed(1)}`;
    if (!joined) path += "h0.01";
    before = at;
  }
  return path;
}

function Grid({ axis, top }: { axis: Axis; top: number }) {
  const low = TOP + BARS + GAP + LATE;
  return (
    <g class="grid">
      {[0, 0.5, 1].map((share) => (
        <line
          key={share}
          x1={0}
          x2={axis.width}
          y1={TOP + BARS * (1 - share)}
          y2={TOP + BARS * (1 - share)}
        />
      ))}
      <text class="label" x={4} y={TOP + 10}>
        {count(top)}
      </text>
      {ticks(axis, zoneName(), 84).map((at) => (
        <g key={at}>
          <line class="tick" x1={x(axis, at)} x2={x(axis, at)} y1={low} y2={low + 4} />
          <text class="label middle" x={Math.min(axis.width - 16, Math.max(16, x(axis, at)))} y={low + 17}>
            {axis.to - axis.from < 600_000 ? clock(at) : minute(at)}
          </text>
        </g>
      ))}
    </g>
  );
}

function Cross({ axis, at }: { axis: Axis; at: number }) {
  return <line class="cross" x1={x(axis, at)} x2={x(axis, at)} y1={TOP} y2={TOP + BARS + GAP + LATE} />;
}

function Legend({ shown, step }: { shown: Bucket | null; step: number }) {
  return (
    <div class="legend">
      {STATES.map((state) => (
        <span key={state}>
          <i class={`swatch s-${state}`} />
          {state} {shown && <b>{count(shown[state])}</b>}
        </span>
      ))}
      <span>
        <i class="swatch s-expected" />
        expected
      </span>
      <span class="right">
        {shown
          ? `${clock(Date.parse(shown.at))}, ${step} s · late p50 ${shown.p50_ms === null ? "–" : duration(shown.p50_ms)}, p99 ${shown.p99_ms === null ? "–" : duration(shown.p99_ms)}`
          : `per ${step < 60 ? `${step} s` : `${step / 60} min`}`}
      </span>
    </div>
  );
}

function summaryOf(items: Bucket[], coming: ComingFire[] | null): string {
  const ended = items.reduce((sum, bucket) => sum + total(bucket), 0);
  const dead = items.reduce((sum, bucket) => sum + bucket.dead, 0);
  return `${count(ended)} executions ended, ${count(dead)} of them dead${coming ? `; ${count(coming.length)} are expected` : ""}`;
}
