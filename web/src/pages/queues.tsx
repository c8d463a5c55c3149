/** Queues: how deep, how old, who serves them; pause and resume with what that does. */
import { useState } from "preact/hooks";
import { post } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Dialog, say } from "../parts/dialog.tsx";
import { useDryRun } from "../parts/dry_run.ts";
import { State, Time } from "../parts/marks.tsx";
import { Empty, Part, Trouble } from "../parts/notices.tsx";
import { usePausing } from "../parts/pausing.tsx";
import { Spark } from "../parts/spark.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { address, part } from "../router.ts";
import { mayWrite } from "../session.ts";
import { count, duration } from "../time.ts";
import type { Queue, QueueDepth, QueueDetail, QueueList, QueuePaused, QueueResumed } from "../types.ts";

const OLD_MS = 5000;

export function Queues({ id }: { id?: string }) {
  return id ? <One name={id} /> : <All />;
}

function All() {
  const list = useData<QueueList>("/queues");
  const [asked, ask] = useState<Queue | null>(null);
  return (
    <>
      <h1>Queues</h1>
      <section class="card list">
        <Part of={list}>
          {(data) =>
            data.items.length ? (
              <Table
                label="Queues"
                rows={data.items}
                columns={columns(ask)}
                id={(queue) => queue.name}
                href={(queue) => address(`/queues/${part(queue.name)}`)}
              />
            ) : (
              <Empty title="No queues yet">
                <p>A queue is there as soon as a job names it; without a name, a job is in “default”.</p>
              </Empty>
            )
          }
        </Part>
      </section>
      <div class="foot">
        <Copy curl={asCurl("GET", "/queues")} cli={asCli("queues", "list")} />
      </div>
      {asked && <Ask queue={asked} close={() => ask(null)} again={list.again} />}
    </>
  );
}

const columns = (ask: (queue: Queue) => void): (Column<Queue> | false)[] => [
  {
    name: "Queue",
    kind: "name",
    show: (queue) => (
      <>
        <a href={address(`/queues/${part(queue.name)}`)}>{queue.name}</a>
        {queue.paused && <State state="paused" />}
      </>
    ),
  },
  {
    name: "Due",
    kind: "number",
    show: (queue) => (
      <a href={address("/executions", { state: "queued", queue: queue.name })}>
        {count(queue.due.count, queue.due.capped)}
      </a>
    ),
  },
  { name: "Oldest", kind: "number", show: (queue) => <Oldest ms={queue.due.oldest_ms} /> },
  {
    name: "Running",
    kind: "number",
    show: (queue) => (
      <a href={address("/executions", { state: "running", queue: queue.name })}>
        {count(queue.running.count, queue.running.capped)}
      </a>
    ),
  },
  { name: "Ended, 10 min", show: (queue) => <Rate of={queue} /> },
  { name: "Workers", kind: "number", show: (queue) => <Workers of={queue} /> },
  {
    name: "Paused",
    kind: "words",
    show: (queue) => (queue.paused ? <Paused of={queue} /> : ""),
  },
  mayWrite.value && {
    name: "Actions",
    kind: "number",
    show: (queue) => (
      <button type="button" class="small" onClick={() => ask(queue)}>
        {queue.paused ? "Resume…" : "Pause…"}
      </button>
    ),
  },
];

function Oldest({ ms }: { ms: number | null }) {
  if (ms === null) return <span class="none">–</span>;
  return <span class={ms > OLD_MS ? "s-warn" : undefined}>{duration(ms)}</span>;
}

function Rate({ of: queue }: { of: Queue }) {
  const all = queue.per_minute.reduce((sum, one) => sum + one, 0);
  return <Spark values={queue.per_minute} words={`${count(all)} ended in ten minutes`} />;
}

function Workers({ of: queue }: { of: Queue }) {
  if (queue.workers) return <span>{queue.workers}</span>;
  return <span class="s-warn">nobody serves it</span>;
}

function Paused({ of: { paused } }: { of: Queue }) {
  if (!paused) return null;
  return (
    <>
      <Time at={paused.since} far /> by {paused.by}
      {paused.reason ? `: ${paused.reason}` : ""}
      {paused.until && (
        <>
          , until <Time at={paused.until} />
        </>
      )}
    </>
  );
}

function One({ name }: { name: string }) {
  const found = useData<QueueDetail>(`/queues/${part(name)}`);
  const [asking, ask] = useState(false);
  return (
    <>
      <p class="crumbs">
        <a href={address("/queues")}>Queues</a>
      </p>
      <Part of={found} title="Queue">
        {(queue) => (
          <>
            <div class="head wrap">
              <h1>
                {queue.name} <State state={queue.paused ? "paused" : "active"} />
              </h1>
              {mayWrite.value && (
                <button type="button" class={queue.paused ? "primary" : ""} onClick={() => ask(true)}>
                  {queue.paused ? "Resume…" : "Pause…"}
                </button>
              )}
            </div>
            {queue.paused && (
              <p class="warning">
                Paused <Paused of={queue} />
              </p>
            )}
            <div class="tiles">
              <Fact name="Due" value={count(queue.due.count, queue.due.capped)} note={oldest(queue)} />
              <Fact
                name="Running"
                value={count(queue.running.count, queue.running.capped)}
                note={queue.limits.in_flight === null ? "no limit" : `limit ${count(queue.limits.in_flight)}`}
              />
              <Fact
                name="Workers"
                value={count(queue.workers)}
                note={queue.workers === 1 ? "serves it" : "serve it"}
              />
              <div class="tile">
                <small>Ended, 10 min</small>
                <strong>{count(queue.per_minute.reduce((sum, one) => sum + one, 0))}</strong>
                <Rate of={queue} />
              </div>
            </div>
            <section class="card list">
              <div class="head">
                <h2>Due by priority</h2>
              </div>
              {queue.depth.length ? (
                <Table
                  label="Depth"
                  rows={queue.depth}
                  columns={DEPTH}
                  id={(lane) => lane.priority + lane.tenant}
                />
              ) : (
                <p class="calm">
                  {queue.paused
                    ? "Nothing is due yet. What comes is held until the queue is resumed."
                    : "Nothing is due: what comes is started as it comes."}
                </p>
              )}
            </section>
            <p class="links">
              <a href={address("/jobs", { queue: name })}>jobs of this queue</a> ·{" "}
              <a href={address("/executions", { queue: name })}>its executions</a> ·{" "}
              <a href={address("/audit", { object: `queue:${name}` })}>who paused it</a>
            </p>
            <Copy curl={asCurl("GET", `/queues/${part(name)}`)} cli={asCli("queues", "show", name)} />
            {asking && <Ask queue={queue} close={() => ask(false)} again={found.again} />}
          </>
        )}
      </Part>
    </>
  );
}

const oldest = (queue: Queue) =>
  queue.due.oldest_ms === null ? "nothing waits" : `oldest ${duration(queue.due.oldest_ms)}`;

function Fact({ name, value, note }: { name: string; value: string; note: string }) {
  return (
    <div class="tile">
      <small>{name}</small>
      <strong>{value}</strong>
      <span>{note}</span>
    </div>
  );
}

const CATCH_UP = 10;
const DEPTH: Column<QueueDepth>[] = [
  {
    name: "Priority",
    show: (lane) => (lane.priority === CATCH_UP ? "missed fires, behind all" : lane.priority),
  },
  { name: "Tenant", show: (lane) => lane.tenant },
  { name: "Due", kind: "number", show: (lane) => count(lane.due.count, lane.due.capped) },
  { name: "Oldest", kind: "number", show: (lane) => <Oldest ms={lane.due.oldest_ms} /> },
];

interface Props {
  queue: Queue;
  close: () => void;
  again: () => void;
}

const Ask = (props: Props) => (props.queue.paused ? <Resume {...props} /> : <Pause {...props} />);

function Pause({ queue, close, again }: Props) {
  const { body, options, fields } = usePausing();
  const path = `/queues/${part(queue.name)}/pause`;
  const act = async () => {
    const done = await post<QueuePaused>(path, body);
    say(`Paused; ${count(done.held)} were taken back from workers.`);
    again();
  };
  return (
    <Dialog title={`Pause the queue ${queue.name}`} action="Pause" close={close} act={act}>
      <p>Nothing of it starts, nothing in it is lost. What runs goes on.</p>
      {fields}
      <Copy curl={asCurl("POST", path, body)} cli={asCli("queues", "pause", queue.name, ...options)} />
    </Dialog>
  );
}

function Resume({ queue, close, again }: Props) {
  const path = `/queues/${part(queue.name)}/resume`;
  const { dry, error } = useDryRun<QueueResumed>(path);
  const act = async () => {
    const done = await post<QueueResumed>(path);
    say(`Resumed: ${count(done.ready.count, done.ready.capped)} start as workers have room.`);
    again();
  };
  return (
    <Dialog title={`Resume the queue ${queue.name}`} action="Resume" close={close} act={act} not={!dry}>
      {error ? (
        <Trouble error={error} />
      ) : dry ? (
        <p class="consequence">
          runs <b>{count(dry.ready.count, dry.ready.capped)}</b>; of{" "}
          <b>{count(dry.missed.count, dry.missed.capped)}</b> whose grace is over, misfire policies decide
        </p>
      ) : (
        <p>Looking at what it would do …</p>
      )}
      <Copy curl={asCurl("POST", path)} cli={asCli("queues", "resume", queue.name)} />
    </Dialog>
  );
}
