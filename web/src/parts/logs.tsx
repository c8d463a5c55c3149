/** What the attempts at a task logged, as it comes. */
import { useEffect, useRef, useState } from "preact/hooks";
import { get, query } from "../api.ts";
import { clock } from "../time.ts";
import type { LogPage, LogView } from "../types.ts";

const PAGE = 500;
const LOOK_MS = 1000;

/** All lines so far. Whole pages are read once; the last one again, while the task may still log. */
function useLogs(id: string, live: boolean): LogView[] {
  const [lines, show] = useState<LogView[]>([]);
  const whole = useRef<{ lines: LogView[]; cursor: string | null }>({ lines: [], cursor: null });
  useEffect(() => {
    const stop = new AbortController();
    const read = async () => {
      for (;;) {
        const { lines: before, cursor } = whole.current;
        const path = `/executions/${id}/logs${query({ limit: PAGE, cursor })}`;
        const page = await get<LogPage>(path, stop.signal);
        const now = [...before, ...page.items];
        show((shown) => (shown.length === now.length ? shown : now));
        if (!page.next_cursor) return;
        whole.current = { lines: now, cursor: page.next_cursor };
      }
    };
    const look = () => void read().catch(() => undefined); // the page says what is wrong, and it is asked again
    look();
    const timer = live ? setInterval(() => document.hidden || look(), LOOK_MS) : undefined;
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [id, live]);
  return lines;
}

export function Logs({ id, live }: { id: string; live: boolean }) {
  const lines = useLogs(id, live);
  const box = useRef<HTMLOListElement>(null);
  const following = useRef(true);
  useEffect(() => {
    if (following.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    following.current = scrollHeight - scrollTop - clientHeight < 24; // a reader who scrolled up is left in peace
  };
  if (!lines.length) return <p class="calm">{live ? "Nothing logged yet." : "Nothing was logged."}</p>;
  const several = new Set(lines.map((one) => one.attempt)).size > 1;
  return (
    <ol class="logs" ref={box} onScroll={scrolled} tabIndex={0} aria-label="Log lines">
      {lines.map((one) => (
        <li key={`${one.attempt} ${one.seq}`} class={`l-${one.level}`}>
          <time dateTime={one.at} title={one.at}>
            {clock(Date.parse(one.at))}
          </time>
          {several && <small>#{one.attempt}</small>}
          <b>{one.level}</b>
          <span>
            {one.message}
            {one.fields &&
              Object.entries(one.fields).map(([name, value]) => (
                <small key={name}>
                  {" "}
                  {name}={typeof value === "string" ? value : JSON.stringify(value)}
                </small>
              ))}
          </span>
        </li>
      ))}
    </ol>
  );
}
