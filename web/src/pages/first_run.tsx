/** The first thing a newcomer sees: one filled form, one button, and a job that fires within seconds. */
import { useState } from "preact/hooks";
import { base, post, refresh } from "../api.ts";
import { asCurl, Copy } from "../parts/copy.tsx";
import { attempt } from "../parts/dialog.tsx";
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
          From your crontab, to look at first: <code>crontab -l | tocsin import crontab --dry-run -</code>
        </li>
        <li>
          From code: the button's request <Copy curl={asCurl("POST", "/jobs", first)} />
        </li>
      </ul>
    </section>
  );
}

/** For a job of the first run: offer to see what failing looks like. */
export function LetItFail({ job }: { job: Job }) {
  const target = job.target as { kind: string; url?: string };
  if (
    !mayWrite.value ||
    !session.value?.echo ||
    !target.url?.endsWith("/v1/echo") ||
    job.name !== "first-job"
  )
    return null;
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
    <p class="offer">
      It works. Now{" "}
      <button type="button" class="link" onClick={() => void fail()}>
        let one fail
      </button>{" "}
      and see retries, a dead letter, and how to replay it.
    </p>
  );
}
