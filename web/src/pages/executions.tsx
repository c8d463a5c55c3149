/** Executions: what runs, what waits, what ended and how. */
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { Acting } from "../parts/acting.tsx";
import { asCli, asCurl, asOptions, Copy } from "../parts/copy.tsx";
import { States } from "../parts/counts.tsx";
import { Chips, Choose, given, isNarrowed, LookFurther, NoMatch, Pages } from "../parts/filters.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { Progressed } from "../parts/progress.tsx";
import { Qualified, useQueues } from "../parts/qualified.tsx";
import { type Chosen, type Column, Table, useChosen } from "../parts/table.tsx";
import { address } from "../router.ts";
import { mayWrite } from "../session.ts";
import { duration, now } from "../time.ts";
import type { Do, Execution, ExecutionPage } from "../types.ts";

const FILTERS = ["state", "queue", "job", "job_name", "tag", "cause", "min_lag", "error", "fired"];
const STATES = ["queued", "claimed", "running", "succeeded", "dead", "skipped", "cancelled", "expired"];
const CAUSES = ["schedule", "catch_up", "manual", "backfill", "rerun"];
const SPANS: Record<string, number> = { "1h": 1, "6h": 6, "24h": 24, "7d": 168 };
const HOUR = 3_600_000;
/** Searches in texts and by lateness always have a range, so that no page reads all of history. */
const DEFAULT_RANGE = "24h";

/** The list as it comes has what runs and then what is over; what waits for its time, perhaps very many, is there when asked for. */
const OTHERS = { "": "latest", all: "all" };

export function Executions() {
  const { asked, latest } = askedFor();
  const page = useData<ExecutionPage>(`/executions${query({ ...asked, limit: 50 })}`);
  const first = latest && !asked.cursor;
  const under = query({ ...asked, over: undefined, state: "running", limit: 50 });
  const running = useData<ExecutionPage>(first ? `/executions${under}` : null);
  return (
    <>
      <div class="head">
        <h1>Executions</h1>
      </div>
      <States path="/executions" states={STATES} asked={{ ...asked, over: undefined }} others={OTHERS} />
      <div class="filters">
        <Qualified
          label="Find executions"
          hint="part of a job's name, error:… queue:… tag:…"
          words="job_name"
          values={{ state: STATES, queue: useQueues(), error: [], tag: [], cause: CAUSES }}
        />
        <Choose name="min_lag" label="late at least" options={["100ms", "1s", "10s", "1m"]} />
        <Choose name="fired" label="fired within" options={Object.keys(SPANS)} />
      </div>
      <Chips names={FILTERS} />
      <section class="card list">
        <Part of={page}>
          {(data) => {
            const items = joined(first ? (running.data?.items ?? []) : [], data.items);
            if (items.length) return <Rows page={{ ...data, items }} asked={asked} />;
            return data.next_cursor ? <LookFurther next={data.next_cursor} /> : <Nothing />;
          }}
        </Part>
      </section>
      <div class="foot">
        <Copy
          curl={asCurl("GET", `/executions${query(asked)}`)}
          cli={asCli("executions", "list", ...asOptions({ ...asked, cursor: undefined }))}
        />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
    </>
  );
}

const ACTIONS: [Do, string][] = [
  ["retry", "Replay…"],
  ["rerun", "Run again…"],
  ["cancel", "Cancel…"],
];

function Rows({ page, asked }: { page: ExecutionPage; asked: Record<string, string | undefined> }) {
  const chosen = useChosen();
  if (!mayWrite.value) return <ExecutionRows items={page.items} />;
  return (
    <>
      <Acting
        of="executions"
        chosen={chosen}
        shown={page.items.length}
        more={page.next_cursor !== null}
        where={matching(asked)}
        actions={ACTIONS}
      />
      <ExecutionRows items={page.items} chosen={chosen} />
    </>
  );
}

/** What runs, then what is over. What ended between the two looks is over. */
function joined(running: Execution[], over: Execution[]): Execution[] {
  const ended = new Set(over.map((item) => item.id));
  return [...running.filter((item) => !ended.has(item.id)), ...over];
}

/** The filters as an operation takes them, or why not: it knows fewer of them, and never means every execution there is. */
function matching(asked: Record<string, string | undefined>): Record<string, string | undefined> | string {
  const { cursor: _, job_name, tag, cause, over, ...where } = asked;
  if (!where.state || over) return "Choose a state first: an operation never means every execution there is.";
  return job_name || tag || cause
    ? "An operation does not know the name, tag or cause: take them out first."
    : where;
}

/** What the address asks for, as the API takes it. A range that ends now begins at a whole minute: it can be asked for again. */
function askedFor(): { asked: Record<string, string | undefined>; latest: boolean } {
  const { fired, state, ...rest } = given([...FILTERS, "cursor"]);
  const asked = { ...rest, state: state === "all" ? undefined : state, over: state ? undefined : "true" };
  const span = SPANS[fired ?? (rest.error || rest.min_lag ? DEFAULT_RANGE : "")];
  if (!span) return { asked, latest: !state };
  const from = Math.floor((now() - span * HOUR) / 60_000) * 60_000;
  return { asked: { ...asked, fire_from: new Date(from).toISOString() }, latest: !state };
}

const took = (item: Execution) =>
  item.started_at && item.finished_at ? Date.parse(item.finished_at) - Date.parse(item.started_at) : null;

const COLUMNS: Column<Execution>[] = [
  {
    name: "State",
    show: (item) => (
      <a href={address(`/executions/${item.id}`)}>
        <State state={item.state} />
      </a>
    ),
  },
  {
    name: "Job",
    kind: "name",
    show: (item) => (
      <a href={address(`/jobs/${item.job_id}`)}>
        {item.job_name ?? <code>{item.job_id.slice(0, 14)}…</code>}
      </a>
    ),
  },
  {
    name: "Fire time",
    show: (item) => (
      <>
        <Time at={item.fire_at} />
        {item.fire_count > 1 && <small> × {item.fire_count}</small>}
      </>
    ),
  },
  { name: "Late", kind: "number", show: (item) => <Span ms={item.lag_ms} /> },
  { name: "Took", kind: "number", show: (item) => <Span ms={took(item)} /> },
  { name: "Attempt", kind: "number", show: (item) => item.attempt },
  { name: "Queue", show: (item) => item.queue },
  {
    name: "Reason",
    kind: "words",
    show: (item) =>
      item.state === "running" && item.progress ? (
        <Progressed of={item.progress} />
      ) : (
        (item.reason ?? (item.cause === "schedule" ? "" : item.cause))
      ),
  },
];

export function Span({ ms }: { ms: number | null }) {
  return (
    <span class={ms === null ? "none" : undefined}>{ms === null ? "–" : duration(Math.max(0, ms))}</span>
  );
}

interface RowsProps {
  items: Execution[];
  withJob?: boolean;
  chosen?: Chosen;
}

export function ExecutionRows({ items, withJob = true, chosen }: RowsProps) {
  return (
    <Table
      label="Executions"
      rows={items}
      columns={COLUMNS.filter(({ name }) => withJob || (name !== "Job" && name !== "Queue"))}
      id={(item) => item.id}
      href={(item) => address(`/executions/${item.id}`)}
      chosen={chosen}
    />
  );
}

function Nothing() {
  if (isNarrowed(FILTERS)) return <NoMatch what="execution" names={FILTERS} />;
  return (
    <Empty title="Nothing has run yet">
      <p>Each firing of a job appears here when it runs, and after it ended. What waits is under “queued”.</p>
    </Empty>
  );
}
