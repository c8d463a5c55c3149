/** What is said instead of data: nothing yet, nothing that matches, something wrong. Each says what to do next. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Known, Refused } from "../api.ts";
import { address } from "../router.ts";
import { duration, tick } from "../time.ts";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <svg viewBox="0 0 64 64" aria-hidden="true">
        <path d="M32 10c-9 0-16 7-16 16v12l-5 8h42l-5-8V26c0-9-7-16-16-16zM26 50a6 6 0 0 0 12 0z" />
      </svg>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Trouble({ error, again }: { error: Refused; again?: (() => void) | undefined }) {
  const { status, detail, hint, request_id } = error.problem;
  return (
    <div class="trouble" role="alert">
      <strong>{TITLES[status] ?? "This did not work"}</strong>
      <p>
        {detail}
        {hint ? ` — ${hint}` : ""}
      </p>
      {request_id && (
        <p>
          Quote the request id <code>{request_id}</code>.
        </p>
      )}
      {status === 404 && <p>Ctrl-K finds a job by part of its name, and anything by its id.</p>}
      {status === 403 && (
        <p>
          <a href={address("/")}>To the overview</a>, or log in with a key that has the scope.
        </p>
      )}
      {again && status !== 403 && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
      <Wait error={error} again={again} />
    </div>
  );
}

interface WaitProps {
  error: Refused;
  again: (() => void) | undefined;
}

function Wait({ error, again }: WaitProps) {
  if (error.retryAfter === null) return null;
  if (error.problem.status === 429) return <Countdown key={error} seconds={error.retryAfter} again={again} />;
  return <small>Worth trying again in {error.retryAfter} s.</small>;
}

/** How long the server wants to be left alone. What only asks is asked again when that is over. */
function Countdown({ seconds, again }: { seconds: number; again: (() => void) | undefined }) {
  const until = useRef(Date.now() + seconds * 1000);
  const left = Math.max(0, Math.ceil((until.current - Math.max(tick.value, Date.now())) / 1000));
  useEffect(() => {
    if (!left) again?.();
  }, [left]);
  if (left)
    return (
      <small role="timer">
        {again ? "It is asked again" : "Worth trying again"} in {left} s.
      </small>
    );
  return <small>{again ? "It is asked again …" : "Worth trying again now."}</small>;
}

const TITLES: Record<number, string> = {
  0: "No answer",
  403: "This key may not do that",
  404: "There is nothing under this address",
  409: "Not possible now",
  412: "Another user changed it",
  422: "Something is wrong in the request",
  429: "Too many requests",
  500: "A defect of ours",
  503: "The database is away",
};

/** A part of a page: its data, or what stands in the way. One that fails does not take its page along. */
export function Part<T>({
  of,
  title,
  children,
}: {
  of: Known<T> & { again: () => void };
  /** The heading of a page that has none without its data. */
  title?: string;
  children: (data: T) => ComponentChildren;
}) {
  if (of.data !== null) {
    return (
      <div class={of.error ? "stale" : "part"}>
        {of.error && <Stale since={of.at} error={of.error} again={of.again} />}
        {children(of.data)}
      </div>
    );
  }
  if (!of.error) return <Skeleton />;
  return (
    <>
      {title && <h1>{title}</h1>}
      <Trouble error={of.error} again={of.again} />
    </>
  );
}

function Stale({ since, error, again }: { since: number } & WaitProps) {
  tick.value;
  const { status, title } = error.problem;
  return (
    <p class="age">
      as it was {duration(Date.now() - since)} ago{" "}
      {status === 429 && (
        <>
          · {TITLES[status] ?? title} <Wait error={error} again={again} />
        </>
      )}
    </p>
  );
}

export function Skeleton() {
  return (
    <div class="skeleton" aria-busy="true">
      <i />
      <i />
      <i />
    </div>
  );
}
