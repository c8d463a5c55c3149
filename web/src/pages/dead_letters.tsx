/** What failed for good, by kind of error, and a way to try it again. */
import { useState } from "preact/hooks";
import { post, query } from "../api.ts";
import { useData } from "../hooks.ts";
import { attempt } from "../parts/dialog.tsx";
import { Chips, given, Pages, Search } from "../parts/filters.tsx";
import { Mark, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { address, alter } from "../router.ts";
import { mayWrite } from "../session.ts";
import { count } from "../time.ts";
import type { ErrorGroups, Execution, ExecutionPage } from "../types.ts";

const FILTERS = ["error", "queue", "job"];

export function DeadLetters() {
  const groups = useData<ErrorGroups>("/dead-letters/groups");
  const page = useData<ExecutionPage>(
    `/dead-letters${query({ ...given([...FILTERS, "cursor"]), limit: 50 })}`,
  );
  const again = () => {
    groups.again();
    page.again();
  };
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
        <Search name="error" label="error contains …" />
        <Search name="queue" label="queue" />
      </div>
      <Chips names={FILTERS} />
      <section class="card list">
        <Part of={page}>{(data) => <Letters page={data} again={again} />}</Part>
      </section>
      <Pages next={page.data?.next_cursor ?? null} />
    </>
  );
}

function Groups({ groups }: { groups: ErrorGroups }) {
  if (!groups.items.length) {
    return (
      <p class="calm">
        <Mark state="succeeded" /> Nothing failed for good in the last 24 hours.
      </p>
    );
  }
  return (
    <table>
      <thead>
        <tr>
          <th>Error</th>
          <th class="number">Count</th>
          <th class="number">Last hour</th>
          <th class="number">Jobs</th>
          <th>First</th>
          <th>Last</th>
        </tr>
      </thead>
      <tbody>
        {groups.items.map((group) => (
          <tr key={`${group.fingerprint}${group.status}`}>
            <td data-name="Error" class="words">
              <button type="button" class="link" onClick={() => alter({ error: group.error ?? undefined })}>
                {group.error ?? "no error was told"}
              </button>
            </td>
            <td data-name="Count" class="number">
              <b>{count(group.count, groups.capped)}</b>
            </td>
            <td data-name="Last hour" class="number">
              {count(group.last_hour)}
            </td>
            <td data-name="Jobs" class="number">
              {count(group.jobs)}
            </td>
            <td data-name="First">
              <Time at={group.first_at} far />
            </td>
            <td data-name="Last">
              <a href={address(`/executions/${group.sample}`)}>
                <Time at={group.last_at} far />
              </a>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Letters({ page, again }: { page: ExecutionPage; again: () => void }) {
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  if (!page.items.length) {
    return (
      <Empty title="No dead letters">
        <p>
          An execution that used up its attempts, or failed in a way that no retry mends, waits here with
          every attempt's error.
        </p>
      </Empty>
    );
  }
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    choose(next);
  };
  const all = chosen.size === page.items.length;
  return (
    <>
      {mayWrite.value && (
        <div class="bulk">
          <label>
            <input
              type="checkbox"
              checked={all}
              onChange={() => choose(all ? new Set() : new Set(page.items.map((item) => item.id)))}
            />
            {chosen.size ? `${chosen.size} selected` : `select the ${page.items.length} shown`}
          </label>
          <Replay
            chosen={chosen}
            done={() => {
              choose(new Set());
              again();
            }}
          />
        </div>
      )}
      <table>
        <thead>
          <tr>
            {mayWrite.value && <th aria-label="Selected" />}
            <th>Job</th>
            <th>Error</th>
            <th class="number">Attempts</th>
            <th>Ended</th>
          </tr>
        </thead>
        <tbody>
          {page.items.map((item) => (
            <Letter key={item.id} item={item} chosen={chosen.has(item.id)} toggle={() => toggle(item.id)} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function Letter({ item, chosen, toggle }: { item: Execution; chosen: boolean; toggle: () => void }) {
  return (
    <tr tabIndex={0} data-href={address(`/executions/${item.id}`)}>
      {mayWrite.value && (
        <td>
          <input
            type="checkbox"
            aria-label={`select ${item.job_name ?? item.id}`}
            checked={chosen}
            onChange={toggle}
          />
        </td>
      )}
      <td data-name="Job" class="name">
        <a href={address(`/jobs/${item.job_id}`)}>
          {item.job_name ?? <code>{item.job_id.slice(0, 14)}…</code>}
        </a>
      </td>
      <td data-name="Error" class="words">
        <a href={address(`/executions/${item.id}`)}>{item.reason}</a>
      </td>
      <td data-name="Attempts" class="number">
        {item.attempts.length}
      </td>
      <td data-name="Ended">
        <Time at={item.finished_at} far />
      </td>
    </tr>
  );
}

/** Retry what is selected, one after the other, and stop by itself when the answers say that it is no use. */
function Replay({ chosen, done }: { chosen: ReadonlySet<string>; done: () => void }) {
  const [left, count_] = useState<number | null>(null);
  const replay = async () => {
    let rest = chosen.size;
    for (const id of chosen) {
      count_(rest--);
      if (!(await attempt(post(`/executions/${id}/retry`), "Replayed."))) break;
    }
    count_(null);
    done();
  };
  return (
    <button
      type="button"
      class="primary"
      disabled={!chosen.size || left !== null}
      onClick={() => void replay()}
    >
      {left === null ? "Replay selected" : `${left} left …`}
    </button>
  );
}
