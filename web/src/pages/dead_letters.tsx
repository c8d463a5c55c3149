/** What failed for good, by kind of error, and ways to try it again or give it up. */
import { useState } from "preact/hooks";
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { Acting } from "../parts/acting.tsx";
import { asCli, asCurl, asOptions, Copy } from "../parts/copy.tsx";
import { Chips, given, isNarrowed, LookFurther, NoMatch, Pages } from "../parts/filters.tsx";
import { Mark, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { Operate } from "../parts/operate.tsx";
import { Qualified, useQueues } from "../parts/qualified.tsx";
import { Spark } from "../parts/spark.tsx";
import { type Column, Table, useChosen } from "../parts/table.tsx";
import { address, alter } from "../router.ts";
import { mayWrite } from "../session.ts";
import { count } from "../time.ts";
import type { Do, ErrorGroup, ErrorGroups, Execution, ExecutionPage } from "../types.ts";

const FILTERS = ["error", "fingerprint", "queue", "job"];

export function DeadLetters() {
  const groups = useData<ErrorGroups>("/dead-letters/groups");
  const asked = given([...FILTERS, "cursor"]);
  const page = useData<ExecutionPage>(`/dead-letters${query({ ...asked, limit: 50 })}`);
  return (
    <>
      <h1>Dead letters</h1>
      <section class="card list">
        <div class="head">
          <h2>Kinds of errors, 24 h</h2>
        </div>
        <Part of={groups}>{(data) => <Groups groups={data} />}</Part>
      </section>
      <div class="filters">
        <Qualified
          label="Find dead letters"
          hint="part of the error, queue:… job:job_…"
          words="error"
          values={{ queue: useQueues(), job: [] }}
        />
      </div>
      <Chips names={FILTERS} />
      <section class="card list">
        <Part of={page}>{(data) => <Letters page={data} />}</Part>
      </section>
      <div class="foot">
        <Copy
          curl={asCurl("GET", `/dead-letters${query(asked)}`)}
          cli={asCli("dead-letters", "list", ...asOptions(given(FILTERS)))}
        />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
    </>
  );
}

function Groups({ groups }: { groups: ErrorGroups }) {
  const [asked, ask] = useState<{ does: Do; group: ErrorGroup } | null>(null);
  if (!groups.items.length) {
    return (
      <p class="calm">
        <Mark state="succeeded" /> Nothing failed for good in the last 24 hours.
      </p>
    );
  }
  return (
    <>
      <Table
        label="Kinds of errors"
        rows={groups.items}
        columns={columns((does, group) => ask({ does, group }))}
        id={(group) => `${group.fingerprint}${group.status}`}
      />
      {asked && (
        <Operate
          does={asked.does}
          of="dead_letters"
          target={{ where: { fingerprint: asked.group.fingerprint } }}
          words={`“${asked.group.error}”`}
          close={() => ask(null)}
        />
      )}
    </>
  );
}

const columns = (ask: (does: Do, group: ErrorGroup) => void): (Column<ErrorGroup> | false)[] => [
  {
    name: "Kind of error",
    kind: "words",
    show: (group) => (
      <button
        type="button"
        class="link"
        onClick={() => alter({ fingerprint: group.fingerprint ?? undefined, error: undefined })}
      >
        {group.error ?? "no error was told"}
      </button>
    ),
  },
  { name: "Count", kind: "number", show: (group) => <b>{count(group.count, group.capped)}</b> },
  { name: "Jobs", kind: "number", show: (group) => count(group.jobs) },
  { name: "First", show: (group) => <Time at={group.first_at} far /> },
  {
    name: "Last",
    show: (group) => (
      <a href={address(`/executions/${group.sample}`)}>
        <Time at={group.last_at} far />
      </a>
    ),
  },
  {
    name: "24 h",
    show: (group) => <Spark values={group.hourly} words={`${count(group.last_hour)} in the last hour`} />,
  },
  mayWrite.value && {
    name: "Actions",
    kind: "number",
    show: (group) => (
      <span class="actions end">
        <button type="button" class="small" onClick={() => ask("retry", group)}>
          Replay…
        </button>
        <button type="button" class="small danger" onClick={() => ask("discard", group)}>
          Discard…
        </button>
      </span>
    ),
  },
];

function Letters({ page }: { page: ExecutionPage }) {
  const chosen = useChosen();
  if (!page.items.length) {
    if (page.next_cursor) return <LookFurther next={page.next_cursor} />;
    if (isNarrowed(FILTERS)) return <NoMatch what="dead letter" names={FILTERS} />;
    return (
      <Empty title="No dead letters">
        <p>
          An execution that used up its attempts, or failed in a way that no retry mends, waits here with
          every attempt's error.
        </p>
      </Empty>
    );
  }
  return (
    <>
      {mayWrite.value && (
        <Acting
          of="dead_letters"
          chosen={chosen}
          shown={page.items.length}
          more={page.next_cursor !== null}
          where={given(FILTERS)}
          actions={[
            ["retry", "Replay…"],
            ["rerun", "Run again…"],
            ["discard", "Discard…"],
          ]}
        />
      )}
      <Table
        label="Dead letters"
        rows={page.items}
        columns={LETTER}
        id={(item) => item.id}
        href={(item) => address(`/executions/${item.id}`)}
        chosen={mayWrite.value ? chosen : undefined}
      />
    </>
  );
}

const LETTER: Column<Execution>[] = [
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
    name: "Error",
    kind: "words",
    show: (item) => <a href={address(`/executions/${item.id}`)}>{item.reason}</a>,
  },
  { name: "Fire time", show: (item) => <Time at={item.fire_at} /> },
  { name: "Attempts", kind: "number", show: (item) => item.attempts.length },
  { name: "Queue", show: (item) => item.queue },
  { name: "Ended", show: (item) => <Time at={item.finished_at} far /> },
];
