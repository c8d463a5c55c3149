/** Remote workers, which run tasks: what each serves, its revision, how busy it is; and the tasks with who serves them. */
import { useState } from "preact/hooks";
import { post } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Dialog, say } from "../parts/dialog.tsx";
import { Pages } from "../parts/filters.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { address, alter, param, part } from "../router.ts";
import { type Served, servedBy } from "../served.ts";
import { mayWrite } from "../session.ts";
import { count } from "../time.ts";
import type { Worker, WorkerPage } from "../types.ts";

const LOOK_MS = 2000;
const MOST = 200;

export function Workers() {
  const all = param("all") === "true";
  const cursor = param("cursor");
  const path = `/workers?limit=${MOST}${all ? "&all=true" : ""}${cursor ? `&cursor=${cursor}` : ""}`;
  const found = useData<WorkerPage>(path, true, LOOK_MS);
  const [asked, ask] = useState<Worker | null>(null);
  return (
    <>
      <div class="head wrap">
        <h1>Task workers</h1>
        <label class="check">
          <input
            type="checkbox"
            checked={all}
            onChange={() => alter({ all: all ? undefined : "true", cursor: undefined })}
          />{" "}
          also those that are gone
        </label>
      </div>
      <Part of={found}>
        {({ items }) =>
          items.length ? (
            <>
              <section class="card list">
                <Table
                  label="Task workers"
                  rows={items}
                  columns={columns(ask)}
                  id={(worker) => worker.id}
                  pale={(worker) => worker.state === "gone"}
                />
              </section>
              <section class="card list">
                <div class="head">
                  <h2>Tasks</h2>
                </div>
                <Table label="Tasks" rows={servedBy(items)} columns={TASKS} id={(task) => task.name} />
              </section>
            </>
          ) : (
            <section class="card list">
              <NoWorkers />
            </section>
          )
        }
      </Part>
      <div class="foot">
        <Copy curl={asCurl("GET", path)} cli={asCli("workers", "list", ...(all ? ["--all"] : []))} />
        <Pages next={found.data?.next_cursor ?? null} />
      </div>
      {asked && <Drain worker={asked} close={() => ask(null)} again={found.again} />}
    </>
  );
}

function NoWorkers() {
  return (
    <Empty title="No task workers">
      <p>Functions of your own run on workers of your own. Each one that connects appears here:</p>
      <pre>tocsin tasks serve shop.tasks:app</pre>
    </Empty>
  );
}

const STATES = { active: "active", draining: "paused", gone: "dead" };

const columns = (ask: (worker: Worker) => void): (Column<Worker> | false)[] => [
  {
    name: "Worker",
    kind: "name",
    show: (worker) => (
      <>
        <b>{worker.name}</b> {worker.app && <small>{worker.app}</small>}
      </>
    ),
  },
  { name: "State", show: (worker) => <State state={STATES[worker.state]} word={worker.state} /> },
  { name: "Revision", show: ({ revision }) => (revision ? <code>{revision}</code> : <Dash />) },
  { name: "Running", show: (worker) => <Load of={worker} /> },
  { name: "Queues", kind: "words", show: ({ queues }) => <Queues names={queues} /> },
  {
    name: "Tasks",
    kind: "number",
    show: ({ tasks }) => <span title={tasks.join("\n")}>{count(tasks.length)}</span>,
  },
  { name: "SDK", show: ({ sdk }) => sdk ?? <Dash /> },
  { name: "Up", show: (worker) => <Time at={worker.started_at} far /> },
  { name: "Seen", show: (worker) => <Time at={worker.seen_at} far /> },
  mayWrite.value && {
    name: "Actions",
    kind: "number",
    show: (worker) =>
      worker.state === "active" ? (
        <button type="button" class="small" onClick={() => ask(worker)}>
          Drain…
        </button>
      ) : (
        ""
      ),
  },
];

const Dash = () => <span class="none">–</span>;

function Load({ of: { running, capacity } }: { of: Worker }) {
  const words = `${count(running)} of ${count(capacity)}`;
  return (
    <span class="nowrap">
      <progress class="narrow" max={Math.max(1, capacity)} value={running} aria-label={words} />{" "}
      <small>{words}</small>
    </span>
  );
}

function Queues({ names }: { names: string[] }) {
  return (
    <>
      {names.map((name, index) => (
        <span key={name}>
          {index > 0 && ", "}
          <a href={address(`/queues/${part(name)}`)}>{name}</a>
        </span>
      ))}
    </>
  );
}

const TASKS: Column<Served>[] = [
  { name: "Task", kind: "name", show: ({ name }) => <code>{name}</code> },
  {
    name: "Workers",
    kind: "number",
    show: ({ workers }) => workers || <span class="s-warn">nobody takes it</span>,
  },
  { name: "Queues", kind: "words", show: ({ queues }) => <Queues names={queues} /> },
  {
    name: "Revisions",
    kind: "words",
    show: ({ revisions }) => (
      <span class={revisions.length > 1 ? "s-warn" : undefined}>{revisions.join(", ") || <Dash />}</span>
    ),
  },
];

interface Props {
  worker: Worker;
  close: () => void;
  again: () => void;
}

function Drain({ worker, close, again }: Props) {
  const path = `/workers/${worker.id}/drain`;
  const act = async () => {
    await post<Worker>(path);
    say("It ends what it has and takes no more.");
    again();
  };
  return (
    <Dialog title={`Drain ${worker.name}`} action="Drain" close={close} act={act}>
      <p class="consequence">
        It ends the <b>{count(worker.running)}</b> that it runs, takes no more, and goes. What is queued waits
        for other workers.
      </p>
      <Copy curl={asCurl("POST", path)} cli={asCli("workers", "drain", worker.id)} />
    </Dialog>
  );
}
