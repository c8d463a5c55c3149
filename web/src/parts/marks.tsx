/** States and times as people read them: colour, shape and word together, every time with its whole truth on hover. */
import { distance, moment, tick, whole } from "../time.ts";

const PATHS: Record<string, string> = {
  succeeded:
    "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm3.2 5.3-3.8 4.2a.9.9 0 0 1-1.3 0L4.6 8.9l1.2-1.2 1 1 3.2-3.6z",
  running: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2v10A5 5 0 0 1 8 3z",
  claimed:
    "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2a5 5 0 1 1 0 10A5 5 0 0 1 8 3zm0 3a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  queued: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2a5 5 0 1 1 0 10A5 5 0 0 1 8 3z",
  dead: "M4 2.2 2.2 4l4 4-4 4L4 13.8l4-4 4 4 1.8-1.8-4-4 4-4L12 2.2l-4 4z",
  skipped: "M8 1 1 8l7 7 7-7zm0 2.6L12.4 8 8 12.4 3.6 8z",
  cancelled:
    "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2c1 0 2 .3 2.8.8L3.8 10.8A5 5 0 0 1 8 3zm4.2 2.2a5 5 0 0 1-7 7z",
  expired: "M3 1h10v3L9.5 8l3.5 4v3H3v-3l3.5-4L3 4z",
  active: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z",
  paused: "M3 2h4v12H3zm6 0h4v12H9z",
  completed: "M6.4 13.4 1.2 8.2l2-2 3.2 3.2 6.4-6.8 2 2z",
  expected: "M7 1h2v3H7zm0 5.5h2v3H7zM7 12h2v3H7z",
  warn: "M8 1 .8 14.5h14.4zM7.1 6h1.8v4.6H7.1zm0 5.6h1.8v1.6H7.1z",
};

export function Mark({ state, title }: { state: string; title?: string | undefined }) {
  return (
    <svg
      class={`mark s-${state}`}
      viewBox="0 0 16 16"
      aria-hidden={title ? undefined : "true"}
      role={title ? "img" : undefined}
    >
      {title && <title>{title}</title>}
      <path d={PATHS[state] ?? PATHS.queued} />
    </svg>
  );
}

export function State({ state, word = state }: { state: string; word?: string }) {
  return (
    <span class={`state s-${state}`}>
      <Mark state={state} />
      {word}
    </span>
  );
}

/** An instant: short, with everything about it on hover. */
export function Time({ at, far = false }: { at: string | null | undefined; far?: boolean }) {
  if (!at) return <span class="none">–</span>;
  if (far) tick.value;
  return (
    <time dateTime={at} title={whole(at)}>
      {far ? distance(Date.parse(at)) : moment(at)}
    </time>
  );
}

/** The last outcomes of a job, oldest first, each a link to its execution. */
export function Recent({
  fires,
}: {
  fires: { id: string; state: string; fire_at: string; reason: string | null }[];
}) {
  if (!fires.length) return <span class="none">not yet</span>;
  const words = fires.map((fire) => fire.state);
  const failed = words.filter((word) => word === "dead").length;
  const summary = `last ${fires.length}: ${fires.length - failed} not dead, ${failed} dead`;
  return (
    <span class="recent" role="img" aria-label={summary}>
      {fires.toReversed().map((fire) => (
        <i
          key={fire.id}
          class={`pip s-${fire.state}`}
          title={`${fire.state} ${moment(fire.fire_at)}${fire.reason ? `\n${fire.reason}` : ""}`}
        />
      ))}
    </span>
  );
}
