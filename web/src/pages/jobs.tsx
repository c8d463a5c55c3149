/** All jobs: found by part of a name, narrowed by filters, acted on by rows. */
import { query } from "../api.ts";
import { useData, useStill } from "../hooks.ts";
import { asCli, asCurl, asOptions, Copy } from "../parts/copy.tsx";
import { Chips, Choose, given, Pages, Search } from "../parts/filters.tsx";
import { Recent, State, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { address, alter, go, place } from "../router.ts";
import { mayWrite } from "../session.ts";
import { duration } from "../time.ts";
import type { Job, JobPage } from "../types.ts";

const FILTERS = ["name", "state", "kind", "queue", "tag"];

export function Jobs() {
  const asked = query({ ...given([...FILTERS, "cursor"]), limit: 50 });
  const page = useData<JobPage>(
    `/jobs${query({ ...given([...FILTERS, "cursor"]), limit: 50, with: "recent" })}`,
  );
  return (
    <>
      <div class="head">
        <h1>Jobs</h1>
        {mayWrite.value && (
          <a class="button primary" href={address("/jobs/new")}>
            New job
          </a>
        )}
      </div>
      <div class="filters">
        <Search name="name" label="name contains …" />
        <Choose name="state" label="state" options={["active", "paused", "completed", "cancelled"]} />
        <Choose name="kind" label="kind" options={["recurring", "once"]} />
        <Search name="queue" label="queue" />
        <Search name="tag" label="tag" />
      </div>
      <Chips names={FILTERS} />
      <section class="card list">
        <Part of={page}>{(data) => <Rows page={data} />}</Part>
      </section>
      <div class="foot">
        <Copy
          curl={asCurl("GET", `/jobs${asked}`)}
          cli={asCli("jobs", "list", ...asOptions(given(FILTERS)))}
        />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
    </>
  );
}

function Rows({ page }: { page: JobPage }) {
  const still = useStill(page.items);
  if (!page.items.length) return <NoJobs />;
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
            <th>Name</th>
            <th>Schedule</th>
            <th>Next</th>
            <th>Last 20</th>
            <th>Last</th>
            <th>Queue</th>
          </tr>
        </thead>
        <tbody>
          {still.shown.map((job) => (
            <Row key={job.id} job={job} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function Row({ job }: { job: Job }) {
  const last = job.recent?.[0];
  const href = address(`/jobs/${job.id}`);
  return (
    <tr tabIndex={0} data-href={href}>
      <td data-name="Name" class="name">
        <a href={href}>{job.name ?? <code>{job.id.slice(0, 14)}…</code>}</a>
        {job.state !== "active" && <State state={job.state} />}
        {job.tags.map((tag) => (
          <button key={tag} type="button" class="tag" onClick={() => alter({ tag })}>
            {tag}
          </button>
        ))}
      </td>
      <td data-name="Schedule" class="words" title={JSON.stringify(job.schedule)}>
        {job.schedule_words}
      </td>
      <td data-name="Next">
        {job.state === "paused" ? <span class="none">held</span> : <Time at={job.next_fire_at} far />}
      </td>
      <td data-name="Last 20">
        <Recent fires={job.recent ?? []} />
      </td>
      <td data-name="Last">
        {last ? (
          <a
            class={`s-${last.state}`}
            href={address(`/executions/${last.id}`)}
            title={last.reason ?? last.state}
          >
            {last.run_ms === null ? last.state : duration(last.run_ms)}
          </a>
        ) : (
          <span class="none">–</span>
        )}
      </td>
      <td data-name="Queue">{job.queue}</td>
    </tr>
  );
}

function NoJobs() {
  const set = FILTERS.filter((name) => place.value.query.get(name));
  if (set.length) {
    return (
      <Empty title="No job matches">
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
  return (
    <Empty title="No jobs yet">
      <p>A job says what is called and when: once, every so often, or by cron.</p>
      {mayWrite.value && (
        <button type="button" class="primary" onClick={() => go("/jobs/new")}>
          Create a job
        </button>
      )}
    </Empty>
  );
}
