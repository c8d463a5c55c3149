/** Operations: one action on many, how far it has come, and a way to hold or stop it. */
import { post, query } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { attempt } from "../parts/dialog.tsx";
import { Choose, given, isNarrowed, NoMatch, Pages } from "../parts/filters.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { address, param } from "../router.ts";
import { mayWrite } from "../session.ts";
import { count, duration } from "../time.ts";
import type { BackfillPage, Operation, OperationPage } from "../types.ts";
import { Backfills } from "./job_backfills.tsx";

const LOOK_MS = 1000;

export function Operations({ id }: { id?: string }) {
  return id ? <One id={id} /> : <All />;
}

function All() {
  const state = param("state");
  const backfills = useData<BackfillPage>(
    state === "paused" ? null : `/backfills${query({ state, limit: 20 })}`, // none of them is ever paused
  );
  const page = useData<OperationPage>(`/operations${query({ ...given(["state", "cursor"]), limit: 50 })}`);
  return (
    <>
      <h1>Operations</h1>
      <div class="filters">
        <Choose name="state" label="state" options={["running", "paused", "completed", "cancelled"]} />
      </div>
      <section class="card list">
        <Part of={page}>
          {(data) =>
            data.items.length ? (
              <Table
                label="Operations"
                rows={data.items}
                columns={COLUMNS}
                id={(one) => String(one.id)}
                href={(one) => address(`/operations/${one.id}`)}
              />
            ) : isNarrowed(["state"]) ? (
              <NoMatch what="operation" names={["state"]} />
            ) : (
              <Empty title="No operations yet">
                <p>
                  What is done to many at once is here, with its progress: select{" "}
                  <a href={address("/jobs")}>jobs</a> or <a href={address("/dead-letters")}>dead letters</a>,
                  or all that match.
                </p>
              </Empty>
            )
          }
        </Part>
      </section>
      {state !== "paused" && backfills.data && backfills.data.items.length > 0 && (
        <Backfills items={backfills.data.items} again={backfills.again} named />
      )}
      <div class="foot">
        <Copy curl={asCurl("GET", "/operations")} cli={asCli("operations", "list")} />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
    </>
  );
}

const MARKS: Record<Operation["state"], string> = {
  running: "running",
  paused: "paused",
  completed: "completed",
  cancelled: "cancelled",
};

const COLUMNS: Column<Operation>[] = [
  {
    name: "What",
    kind: "name",
    show: (one) => <a href={address(`/operations/${one.id}`)}>{titleOf(one)}</a>,
  },
  { name: "State", show: (one) => <State state={MARKS[one.state]} word={one.state} /> },
  { name: "Progress", show: (one) => <Progress of={one} /> },
  { name: "Failed", kind: "number", show: (one) => count(one.failed + one.cannot) },
  { name: "By", show: (one) => one.by },
  { name: "Began", show: (one) => <Time at={one.created_at} far /> },
];

const titleOf = (one: Operation) =>
  `${one.do.replace("_", " ")} ${count(one.matched, one.gathering)} ${one.of.replace("_", " ")}`;

/** A length of time as the API writes it, in words. */
const spanOf = (text: string) => (/^[\d.]+s$/.test(text) ? duration(Number.parseFloat(text) * 1000) : text);

function Progress({ of: one }: { of: Operation }) {
  const words = `${count(one.done)} of ${count(one.matched, one.gathering)}`;
  return (
    <span class="nowrap">
      <progress max={Math.max(1, one.matched)} value={one.matched - one.left} aria-label={words} />{" "}
      <small>{words}</small>
    </span>
  );
}

function One({ id }: { id: string }) {
  const found = useData<Operation>(`/operations/${id}`, true, LOOK_MS);
  const act = async (verb: string, words: string) => {
    await attempt(post(`/operations/${id}/${verb}`), words);
    found.again();
  };
  return (
    <>
      <p class="crumbs">
        <a href={address("/operations")}>Operations</a>
      </p>
      <Part of={found} title="Operation">
        {(one) => (
          <>
            <div class="head wrap">
              <h1>
                {titleOf(one)} <State state={MARKS[one.state]} word={one.state} />
              </h1>
              {mayWrite.value && !one.finished_at && (
                <div class="actions">
                  {one.state === "running" && (
                    <button type="button" onClick={() => void act("pause", "Held.")}>
                      Pause
                    </button>
                  )}
                  {one.state === "paused" && (
                    <button type="button" class="primary" onClick={() => void act("resume", "Goes on.")}>
                      Go on
                    </button>
                  )}
                  <button
                    type="button"
                    class="danger"
                    onClick={() => void act("cancel", "Stopped. What was done stays done.")}
                  >
                    Stop
                  </button>
                </div>
              )}
            </div>
            {one.state_reason && <p class="warning">{one.state_reason}</p>}
            <section class="card">
              <Bar of={one} />
              <Facts of={one} />
            </section>
            {one.errors.length > 0 && <Errors of={one} />}
            <p class="links">
              <a href={address("/audit", { object: `operation:${one.id}` })}>its audit</a>
            </p>
            <Copy curl={asCurl("GET", `/operations/${id}`)} cli={asCli("operations", "show", id)} />
          </>
        )}
      </Part>
    </>
  );
}

/** How much of it succeeded, failed, is under way, is left. */
function Bar({ of: one }: { of: Operation }) {
  const fired = one.succeeded + one.failed + one.under_way > 0;
  const parts: [string, number, string][] = [
    [fired ? "succeeded" : "done", fired ? one.succeeded : one.done, "s-succeeded"],
    ["failed", one.failed, "s-dead"],
    ["cannot", one.cannot, "s-skipped"],
    ["under way", one.under_way, "s-running"],
    ["left", one.left, "s-queued"],
  ];
  const shown = parts.filter(([, number]) => number > 0);
  return (
    <figure class="plot">
      <figcaption class="legend" aria-live="polite">
        {shown.map(([name, number, state]) => (
          <span key={name}>
            <i class={`swatch ${state}`} /> <b>{count(number)}</b> {name}
          </span>
        ))}
      </figcaption>
      <div class="stack">
        {shown.map(([name, number, state]) => (
          <i key={name} class={state} style={{ flexGrow: number }} title={`${count(number)} ${name}`} />
        ))}
      </div>
    </figure>
  );
}

function Facts({ of: one }: { of: Operation }) {
  const steps = [...one.steps.map(String), "all"];
  return (
    <dl class="facts">
      <dt>Steps</dt>
      <dd>
        {steps.map((size, index) => (
          <span key={`${size}${index}`} class={index + 1 === one.step ? "step now" : "step"}>
            {size}
          </span>
        ))}
      </dd>
      <dt>Pace</dt>
      <dd>
        {Number.parseFloat(String(one.pace))
          ? `${spanOf(String(one.pace))} between two`
          : "as fast as it goes"}
        {one.rate !== null && `, ${one.rate.toFixed(1)} a second so far`}
      </dd>
      <dt>Brake</dt>
      <dd>
        {one.stop_at
          ? `${Math.round(one.stop_at.share * 100)} % of the last ${one.stop_at.of} failed`
          : "none"}
      </dd>
      <dt>Of</dt>
      <dd class="break">{one.where ? wordsOf(one.where) : "things that were named one by one"}</dd>
      <dt>By</dt>
      <dd>
        {one.by}
        {one.reason ? `: ${one.reason}` : ""}, <Time at={one.created_at} far />
        {one.finished_at && `, took ${duration(Date.parse(one.finished_at) - Date.parse(one.created_at))}`}
      </dd>
    </dl>
  );
}

const wordsOf = (where: Record<string, unknown>) =>
  Object.entries(where)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ") || "everything";

function Errors({ of: one }: { of: Operation }) {
  return (
    <section class="card list">
      <div class="head">
        <h2>What failed</h2>
      </div>
      <Table
        label="Errors"
        rows={one.errors}
        id={(error) => error.error}
        columns={[
          { name: "Error", kind: "words", show: (error) => error.error },
          { name: "Count", kind: "number", show: (error) => count(error.count) },
          { name: "First", show: (error) => <Sample id={error.sample} /> },
        ]}
      />
    </section>
  );
}

function Sample({ id }: { id: string }) {
  const path = id.startsWith("exec_") ? `/executions/${id}` : id.startsWith("job_") ? `/jobs/${id}` : null;
  return path ? <a href={address(path)}>{id.slice(0, 18)}…</a> : <span>{id}</span>;
}
