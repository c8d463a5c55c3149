/** Who changed what, when, from where: before and after side by side. */
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, asOptions, Copied, Copy } from "../parts/copy.tsx";
import { Diff } from "../parts/diff.tsx";
import { Chips, Choose, given, isNarrowed, LookFurther, NoMatch, Pages, Search } from "../parts/filters.tsx";
import { Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { address, part } from "../router.ts";
import { day } from "../time.ts";
import type { AuditEntry, AuditPage } from "../types.ts";

const FILTERS = ["object", "action", "actor"];
const ACTIONS = [
  "job.create", "job.create_batch", "job.put_by_name", "job.update", "job.pause", "job.resume", "job.run", "job.skip_next",
  "job.cancel", "job.cancel_queued", "job.delete", "execution.retry", "execution.rerun", "execution.cancel",
  "dead_letter.discard", "operation.create", "operation.pause", "operation.resume", "operation.cancel", "backfill.create",
  "backfill.cancel", "declaration.declare", "declaration.release", "queue.pause", "queue.resume", "calendar.put",
  "calendar.delete", "connection.put", "connection.delete", "secret.put", "secret.delete", "webhook_secret.rotate",
  "alert_rule.put", "alert_rule.delete", "alert_channel.put", "alert_channel.delete", "alert_channel.test", "worker.drain",
  "tenant.create", "tenant.change", "tenant.suspend", "tenant.resume", "key.create", "key.rotate", "key.revoke", "login.bind",
  "login.unbind",
]; // biome-ignore format: a table

export function Audit() {
  const asked = given([...FILTERS, "cursor"]);
  const page = useData<AuditPage>(`/audit${query({ ...asked, limit: 50 })}`);
  return (
    <>
      <h1>Audit</h1>
      <div class="filters">
        <Search name="object" label="job_…, tenant:acme, key:…" />
        <Choose name="action" label="action" options={ACTIONS} />
        <Search name="actor" label="key id" />
      </div>
      <Chips names={FILTERS} />
      <section class="card list">
        <Part of={page}>
          {(data) =>
            data.items.length || !data.next_cursor ? (
              <Entries items={data.items} />
            ) : (
              <LookFurther next={data.next_cursor} />
            )
          }
        </Part>
      </section>
      <div class="foot">
        <Copy
          curl={asCurl("GET", `/audit${query(asked)}`)}
          cli={asCli("audit", "list", ...asOptions(given(FILTERS)))}
        />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
    </>
  );
}

/** Entries, a heading for each day. */
export function Entries({ items, withObject = true }: { items: AuditEntry[]; withObject?: boolean }) {
  if (!items.length) return isNarrowed(FILTERS) ? <NoMatch what="entry" names={FILTERS} /> : <Nothing />;
  let before = "";
  return (
    <ul class="entries">
      {items.map((entry) => {
        const date = day(Date.parse(entry.at));
        const fresh = date !== before;
        before = date;
        return (
          <li key={entry.at + entry.action + entry.object}>
            {fresh && <h2>{date}</h2>}
            <Entry entry={entry} withObject={withObject} />
          </li>
        );
      })}
    </ul>
  );
}

function Entry({ entry, withObject }: { entry: AuditEntry; withObject: boolean }) {
  return (
    <details class="entry">
      <summary>
        <Time at={entry.at} />
        <b>{entry.action}</b>
        {withObject && <span class="break">{titleOf(entry)}</span>}
        <span class="grow" />
        <small>
          {entry.actor}
          {entry.address ? ` · ${entry.address}` : ""}
          {entry.via ? ` · ${entry.via}` : ""}
          {entry.tenant ? ` · ${entry.tenant}` : ""}
        </small>
      </summary>
      <Diff before={entry.before} after={entry.after} />
      <p class="hint">
        {withObject && <Thing entry={entry} />}
        {entry.request_id && (
          <>
            {" "}
            request <Copied text={entry.request_id} name="the request's id" />
          </>
        )}
      </p>
    </details>
  );
}

const titleOf = (entry: AuditEntry) =>
  ((entry.after ?? entry.before) as { name?: string } | null)?.name ?? entry.object;

/** What it was done to, as a link where it has a page. */
function Thing({ entry }: { entry: AuditEntry }) {
  const [kind, name = ""] = entry.object.split(/:(.*)/s);
  const path = /^job_/.test(entry.object)
    ? `/jobs/${entry.object}`
    : /^exec_/.test(entry.object)
      ? `/executions/${entry.object}`
      : kind && (LISTS[kind] ?? (PLACES[kind] && PLACES[kind] + part(name)));
  return path ? <a href={address(path)}>to {titleOf(entry)}</a> : <span class="break">{entry.object}</span>;
}

/** Things that are shown on the page of all of them. */
const LISTS: Record<string, string> = {
  alert_channel: "/alerts",
  alert_rule: "/alerts",
  calendar: "/calendars",
  connection: "/connections",
  key: "/keys",
  secret: "/secrets",
};
const PLACES: Record<string, string> = {
  tenant: "/tenants/",
  queue: "/queues/",
  operation: "/operations/",
};

function Nothing() {
  return (
    <Empty title="Nothing was changed yet">
      <p>Everything that a key changes is noted here, with what it was before and after.</p>
    </Empty>
  );
}
