/** The first thing a newcomer sees: one filled form, one button, and a job that fires within seconds. */
import { useState } from "preact/hooks";
import { base, post, refresh } from "../api.ts";
import { entryOf } from "../crontab.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { attempt } from "../parts/dialog.tsx";
import { pasted } from "../pasted.ts";
import { address, go } from "../router.ts";
import { mayWrite, session } from "../session.ts";
import type { Job } from "../types.ts";

const echo = (more = "") => ({
  kind: "http",
  url: `${location.origin}${base}/v1/echo${more}`,
  body: { hello: "from Tocsin" },
});

export function FirstRun() {
  const [every, change] = useState("5s");
  if (!mayWrite.value)
    return <p class="calm">Nothing is scheduled yet. This key may look, but not create jobs.</p>;
  const first = {
    name: "first-job",
    schedule: { every },
    target: session.value?.echo ? echo() : { kind: "noop" },
  };
  const create = async (event: Event) => {
    event.preventDefault();
    const job = await attempt(post<Job>("/jobs", first), "Created. It fires within seconds.");
    if (job) {
      await refresh("/stats/summary");
      go(`/jobs/${job.id}`);
    }
  };
  return (
    <section class="card first">
      <div>
        <h2>Nothing is scheduled yet</h2>
        <p>
          {session.value?.echo
            ? "This installation can call itself: it answers with what it received, so you see exactly what a target gets."
            : "A first job that does nothing but fire, to see that it does."}
        </p>
        <form onSubmit={create}>
          <label>
            every
            <input value={every} size={6} onInput={(event) => change(event.currentTarget.value)} />
          </label>
          <button type="submit" class="primary">
            Create the first job
          </button>
        </form>
      </div>
      <ul>
        <li>
          <a href={address("/jobs/new")}>Write your own</a>: once, every so often, or by cron, with a live
          preview.
        </li>
        <li>
          <FromCrontab />
        </li>
        <li>
          <FromCode request={first} />
        </li>
      </ul>
    </section>
  );
}

/** A pasted line becomes the editor's form, which shows when it fires before anything is created. */
function FromCrontab() {
  const [text, change] = useState("");
  const [none, tell] = useState(false);
  const look = (event: Event) => {
    event.preventDefault();
    const entry = entryOf(text);
    tell(!entry);
    if (!entry) return;
    pasted.value = entry;
    go("/jobs/new");
  };
  return (
    <form class="paste" onSubmit={look}>
      <label>
        From your crontab: paste a line
        <textarea
          rows={2}
          spellcheck={false}
          value={text}
          placeholder="30 2 * * * curl -X POST https://…"
          onInput={(event) => change(event.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={!text.trim()}>
        Preview
      </button>
      {none && (
        <p class="problem" role="alert">
          That has no entry of a crontab: five fields or @daily, then a command.
        </p>
      )}
      <small>
        All of it: <code>crontab -l | tocsin import crontab --dry-run -</code>
      </small>
    </form>
  );
}

/** The request of the button for a program, with this installation's address. */
function FromCode({ request }: { request: { name: string; schedule: { every: string }; target: unknown } }) {
  const { name, schedule, target } = request;
  const given = `schedule=${JSON.stringify(schedule)}, target=${JSON.stringify(target)}, name=${JSON.stringify(name)}`;
  const python = `from tocsin import Client\n\nwith Client(${JSON.stringify(location.origin + base)}) as tocsin:\n    tocsin.jobs.create(${given})`;
  const cli = asCli("jobs", "create", "--name", name, "--every", schedule.every, ...targetOptions(target));
  return (
    <>
      From code: <Copy curl={asCurl("POST", "/jobs", request)} cli={cli} python={python} />
    </>
  );
}

const targetOptions = (target: unknown) => ["--target", JSON.stringify(target)];

/** For the first job, when it works: see one fail, bring one along, or write one in a program. */
export function Offers({ job }: { job: Job }) {
  if (!mayWrite.value || job.name !== "first-job" || !job.schedule.every) return null;
  return (
    <section class="card offers">
      <h2>It works. What next?</h2>
      <ul>
        {session.value?.echo && (
          <li>
            <LetItFail />
          </li>
        )}
        <li>
          <FromCrontab />
        </li>
        <li>
          <FromCode
            request={{ name: job.name, schedule: { every: String(job.schedule.every) }, target: job.target }}
          />
        </li>
      </ul>
    </section>
  );
}

function LetItFail() {
  const fail = async () => {
    const body = {
      name: "failing-job",
      schedule: { now: true },
      target: echo("?status=503"),
      retry: { max_attempts: 3, initial_backoff: "1s" },
    };
    const made = await attempt(
      post<Job>("/jobs", body),
      "Created: it fails twice more, then is a dead letter.",
    );
    if (made) go(`/jobs/${made.id}`);
  };
  return (
    <>
      <button type="button" class="link" onClick={() => void fail()}>
        Let one fail
      </button>
      , and see retries, a dead letter, and how to replay it.
    </>
  );
}
