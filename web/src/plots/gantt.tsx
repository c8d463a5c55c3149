/** The life of an execution on one axis: the wait until it was due, each attempt, the pauses between. Grows while it runs. */

import { clock, duration, now, tick, zoneName } from "../time.ts";
import type { AttemptView, Execution } from "../types.ts";
import { type Axis, ticks, x } from "./axis.ts";
import { useWidth } from "./history.tsx";

const ROW = 30;
const TOP = 8;
/** Room on the right for what the last attempt says. */
const LABELS = 104;

interface Span {
  from: number;
  to: number;
  kind: string;
  words: string;
}

/** What happened when. Pure, so that it can be reasoned about: waits, attempts, and the gaps between them. */
export function spansOf(execution: Execution, at: number): Span[] {
  const due = Date.parse(execution.due_at);
  const spans: Span[] = [];
  let cursor = due;
  for (const attempt of execution.attempts) {
    if (!attempt.started_at) continue;
    const started = Date.parse(attempt.started_at);
    if (started - cursor >= 0) {
      const kind = attempt.number === 1 ? "wait" : "backoff";
      spans.push({
        from: cursor,
        to: started,
        kind,
        words: `${kind === "wait" ? "late" : "pause"} ${duration(started - cursor)}`,
      });
    }
    const ended = attempt.finished_at ? Date.parse(attempt.finished_at) : Math.max(at, started);
    spans.push({
      from: started,
      to: ended,
      kind: attempt.verdict ?? "running",
      words: wordsOf(attempt, attempt.duration_ms ?? ended - started),
    });
    cursor = ended;
  }
  if (!execution.finished_at && execution.state !== "running") {
    const until = Math.max(Date.parse(execution.run_at), at);
    if (until > cursor)
      spans.push({ from: cursor, to: until, kind: "backoff", words: `waits ${duration(until - cursor)}` });
  }
  return spans;
}

function wordsOf(attempt: AttemptView, took: number): string {
  const status = (attempt.detail as { status?: number } | null)?.status;
  return `#${attempt.number} ${status ?? attempt.verdict ?? "running"} · ${duration(took)}`;
}

export function Gantt({ execution }: { execution: Execution }) {
  const [box, width] = useWidth();
  if (!execution.finished_at) tick.value;
  const spans = spansOf(execution, now());
  if (!spans.length) return null;
  const from = spans[0]!.from;
  const until = Math.max(spans[spans.length - 1]!.to, from + 1);
  const margin = (until - from) * 0.03;
  const axis: Axis = { from: from - margin, to: until + margin, width: Math.max(60, width - LABELS) };
  const attempts = spans.filter((span) => span.kind !== "wait" && span.kind !== "backoff");
  const height = TOP + ROW * Math.max(1, attempts.length) + 26;
  let row = -1;
  return (
    <figure class="plot gantt">
      <div ref={box}>
        {width > 0 && (
          <svg
            viewBox={`0 0 ${width} ${height}`}
            width={width}
            height={height}
            role="img"
            aria-label={spans.map((span) => span.words).join(", ")}
          >
            {spans.map((span) => {
              const gap = span.kind === "wait" || span.kind === "backoff";
              if (!gap) row += 1;
              return (
                <Bar
                  key={`${span.from}${span.kind}`}
                  span={span}
                  axis={axis}
                  row={gap ? row + 1 : row}
                  rows={attempts.length}
                />
              );
            })}
            {marks(axis, from, until - from < 5000).map(([at, words]) => (
              <g key={at}>
                <line class="tick" x1={x(axis, at)} x2={x(axis, at)} y1={TOP} y2={height - 20} />
                <text class="label middle" x={Math.max(24, x(axis, at))} y={height - 6}>
                  {words}
                </text>
              </g>
            ))}
          </svg>
        )}
      </div>
    </figure>
  );
}

function Bar({ span, axis, row, rows }: { span: Span; axis: Axis; row: number; rows: number }) {
  const left = x(axis, span.from);
  const wide = Math.max(2, x(axis, span.to) - left);
  const y = TOP + ROW * Math.min(row, Math.max(0, rows - 1));
  const gap = span.kind === "wait" || span.kind === "backoff";
  return (
    <g class={`span k-${span.kind}`}>
      <title>{span.words}</title>
      <rect
        x={left}
        y={gap ? y + ROW / 2 - 2 : y + 4}
        width={wide}
        height={gap ? 4 : ROW - 8}
        rx={gap ? 2 : 4}
      />
      {!gap && (
        <text class="label" x={left + wide + 6} y={y + ROW / 2 + 4}>
          {span.words}
        </text>
      )}
    </g>
  );
}

/** Where ticks stand and what they say: for a short life the time since it was due, else the clock. */
function marks(axis: Axis, due: number, short: boolean): [number, string][] {
  if (!short) return ticks(axis, zoneName(), 90).map((at) => [at, clock(at)]);
  const since = { ...axis, from: axis.from - due, to: axis.to - due };
  return ticks(since, "UTC", 90)
    .filter((ms) => ms >= 0)
    .map((ms) => [due + ms, `+${duration(ms)}`]);
}
