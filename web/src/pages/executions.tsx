/** Executions: what runs, what waits, what ended and how. */
import { query } from "../api.ts";
import { useData, useStill } from "../hooks.ts";
import { asCli, asCurl, asOptions, Copy } from "../parts/copy.tsx";
import { Chips, Choose, given, Pages, Search } from "../parts/filters.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { address, alter, place } from "../router.ts";
import { duration } from "../time.ts";
import type { Execution, ExecutionPage } from "../types.ts";

const FILTERS = ["state", "queue", "job", "min_lag", "error", "fire_from", "fire_to"];
const STATES = ["queued", "claimed", "running", "succeeded", "dead", "skipped", "cancelled", "expired"];

export function Executions() {
  const asked = query({ ...given([...FILTERS, "cursor"]), limit: 50 });
  const page = useData<ExecutionPage>(`/executions${asked}`);
  return (
    <>
      <div class="head">
        <h1>Executions</h1>
      </div>
      <div class="filters">
        <Choose name="state" label="state" options={STATES} />
        <Search name="queue" label="queue" />
        <Choose name="min_lag" label="late at least" options={["100ms", "1s", "10s", "1m"]} />
        <Search name="error" label="error contains …" />
      </div>
      <Chips names={FILTERS} />
      <section class="card list">
        <Part of={page}>
          {(data) => (data.items.length ? <ExecutionRows items={data.items} /> : <Nothing />)}
        </Part>
      </section>
      <div class="foot">
        <Copy
          curl={asCurl("GET", `/executions${asked}`)}
          cli={asCli("executions", "list", ...asOptions(given(FILTERS)))}
        />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
    </>
  );
}

export function ExecutionRows({ items, withJob = true }: { items: Execution[]; withJob?: boolean }) {
  const still = useStill(items);
  return (
    <>
      {still.waiting > 0 && (
        <button type="button" class="waiting" onClick={still.let}>
          {still.waiting} new
        </button>
      )}
      <table {...still.hold}>
        <thead>
          <tr>
            <th>State</th>
            {withJob && <th>Job</th>}
            <th>Fire time</th>
            <th class="number">Late</th>
            <th class="number">Took</th>
            <th class="number">Attempt</th>
            <th>Reason</th>
          </tr>
        </thead>
        <tbody>
          {still.shown.map((item) => (
            <Row key={item.id} item={item} withJob={withJob} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function Row({ item, withJob }: { item: Execution; withJob: boolean }) {
  const href = address(`/executions/${item.id}`);
  const took =
    item.started_at && item.finished_at ? Date.parse(item.finished_at) - Date.parse(item.started_at) : null;
  return (
    <tr tabIndex={0} data-href={href}>
      <td data-name="State">
        <a href={href}>
          <State state={item.state} />
        </a>
      </td>
      {withJob && (
        <td data-name="Job" class="name">
          <a href={address(`/jobs/${item.job_id}`)}>
            {item.job_name ?? <code>{item.job_id.slice(0, 14)}…</code>}
          </a>
        </td>
      )}
      <td data-name="Fire time">
        <Time at={item.fire_at} />
        {item.fire_count > 1 && <small> × {item.fire_count}</small>}
      </td>
      <td data-name="Late" class="number">
        {item.lag_ms === null ? "–" : duration(Math.max(0, item.lag_ms))}
      </td>
      <td data-name="Took" class="number">
        {took === null ? "–" : duration(took)}
      </td>
      <td data-name="Attempt" class="number">
        {item.attempt}
      </td>
      <td data-name="Reason" class="words">
        {item.reason ?? ""}
      </td>
    </tr>
  );
}

function Nothing() {
  const set = FILTERS.filter((name) => place.value.query.get(name));
  if (!set.length) {
    return (
      <Empty title="Nothing has run yet">
        <p>Each firing of a job appears here, while it waits and runs, and after it ended.</p>
      </Empty>
    );
  }
  return (
    <Empty title="No execution matches">
      <p>
        Looked for {set.map((name) => `${name} “${place.value.query.get(name)}”`).join(", ")}.{" "}
        <button
          type="button"
          class="link"
          onClick={() => alter(Object.fromEntries(FILTERS.map((name) => [name, undefined])))}
        >
          Clear the filters
        </button>
      </p>
    </Empty>
  );
}
