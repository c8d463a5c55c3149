/** What can be done to a job. Before a consequence, the consequence: from the API's own dry run. */
import { useLayoutEffect, useState } from "preact/hooks";
import { post, remove } from "../api.ts";
import { bind } from "../keyboard.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { attempt, Dialog, say } from "../parts/dialog.tsx";
import { useDryRun } from "../parts/dry_run.ts";
import { Menu } from "../parts/menu.tsx";
import { Trouble } from "../parts/notices.tsx";
import { usePausing } from "../parts/pausing.tsx";
import { address, go } from "../router.ts";
import { moment } from "../time.ts";
import type { CancelAnswer, Execution, Job, PauseAnswer, ResumeAnswer } from "../types.ts";
import { BackfillDialog } from "./job_backfills.tsx";

type Asked = "pause" | "resume" | "backfill" | "cancel" | "cancel-queued" | "delete" | null;

interface Props {
  job: Job;
  close: () => void;
  again: () => void;
}

export function Actions({ job, again }: { job: Job; again: () => void }) {
  const [asked, ask] = useState<Asked>(null);
  const over = job.state === "completed" || job.state === "cancelled";
  const recurring = job.kind === "recurring";
  useLayoutEffect(
    () =>
      bind({
        r: () => !over && void run(job),
        s: () =>
          recurring && ask(job.state === "paused" ? "resume" : job.state === "active" ? "pause" : null),
      }),
    [job.state],
  );
  const props = { job, again, close: () => ask(null) };
  return (
    <div class="actions">
      {!over && (
        <button type="button" onClick={() => void run(job)}>
          Run now
        </button>
      )}
      {job.state === "active" && recurring && (
        <button type="button" onClick={() => ask("pause")}>
          Pause…
        </button>
      )}
      {job.state === "paused" && (
        <button type="button" class="primary" onClick={() => ask("resume")}>
          Resume…
        </button>
      )}
      {recurring && (
        <button type="button" onClick={() => ask("backfill")}>
          Backfill…
        </button>
      )}
      {!over && !job.managed_by && (
        <a class="button" href={address(`/jobs/${job.id}/edit`)}>
          Edit
        </a>
      )}
      <Menu label="More actions">
        {job.state === "active" && recurring && (
          <button type="button" class="quiet" onClick={() => void skip(job, again)}>
            Skip next
          </button>
        )}
        <a class="button quiet" href={address("/jobs/new", { of: job.id })}>
          Clone
        </a>
        {!over && (
          <button type="button" class="quiet" onClick={() => ask("cancel-queued")}>
            Cancel what is queued…
          </button>
        )}
        {!over && (
          <button type="button" class="quiet" onClick={() => ask("cancel")}>
            Cancel…
          </button>
        )}
        <button type="button" class="quiet danger" onClick={() => ask("delete")}>
          Delete…
        </button>
        {!over && (
          <Copy
            what="Run now"
            curl={asCurl("POST", `/jobs/${job.id}/run`)}
            cli={asCli("jobs", "run", job.id)}
          />
        )}
        {job.state === "active" && recurring && (
          <Copy
            what="Skip next"
            curl={asCurl("POST", `/jobs/${job.id}/skip-next`)}
            cli={asCli("jobs", "skip-next", job.id)}
          />
        )}
      </Menu>
      {asked === "pause" && <Pause {...props} />}
      {asked === "resume" && <Resume {...props} />}
      {asked === "backfill" && <BackfillDialog {...props} />}
      {asked === "cancel" && <Cancel {...props} />}
      {asked === "cancel-queued" && <CancelQueued {...props} />}
      {asked === "delete" && <Delete {...props} />}
    </div>
  );
}

async function run(job: Job): Promise<void> {
  const made = await attempt(post<Execution>(`/jobs/${job.id}/run`), "Fired.");
  if (made) go(`/executions/${made.id}`);
}

async function skip(job: Job, again: () => void): Promise<void> {
  const path = `/jobs/${job.id}/skip-next`;
  await attempt(post<{ skipped: string }>(path), (answer) => `Skips ${moment(answer.skipped)}.`);
  again();
}

export function Pause({ job, close, again }: Props) {
  const { body, options, fields } = usePausing();
  const act = async () => {
    const answer = await post<PauseAnswer>(`/jobs/${job.id}/pause`, body);
    say(`Paused; ${answer.held} planned executions are held.`);
    again();
  };
  return (
    <Dialog title={`Pause ${job.name ?? "this job"}`} action="Pause" close={close} act={act}>
      <p>Its fires are held until it is resumed. What is running goes on.</p>
      {fields}
      <Copy
        curl={asCurl("POST", `/jobs/${job.id}/pause`, body)}
        cli={asCli("jobs", "pause", job.id, ...options)}
      />
    </Dialog>
  );
}

/** What resuming will do, from the API's own dry run. */
export function Resume({ job, close, again }: Props) {
  const { dry, error } = useDryRun<ResumeAnswer>(`/jobs/${job.id}/resume`);
  const act = async () => {
    const done = await post<ResumeAnswer>(`/jobs/${job.id}/resume`);
    say(`Resumed: runs ${done.fired}, skips ${done.skipped}.`);
    again();
  };
  const first = dry?.fire_times.slice(0, 3).map(moment).join(", ");
  return (
    <Dialog title={`Resume ${job.name ?? "this job"}`} action="Resume" close={close} act={act} not={!dry}>
      {error ? (
        <Trouble error={error} />
      ) : dry ? (
        <p class="consequence">
          runs <b>{dry.fired}</b> now{first ? ` (${first}${dry.fired > 3 ? " …" : ""})` : ""}, skips{" "}
          <b>{dry.skipped}</b>
        </p>
      ) : (
        <p>Looking at what it would do …</p>
      )}
      <p>
        That is what its misfire policy <code>{job.misfire.policy}</code> says, looking back{" "}
        {String(job.misfire.lookback)}.
      </p>
      <Copy curl={asCurl("POST", `/jobs/${job.id}/resume`)} cli={asCli("jobs", "resume", job.id)} />
    </Dialog>
  );
}

function Cancel({ job, close, again }: Props) {
  const act = async () => {
    const done = await post<CancelAnswer>(`/jobs/${job.id}/cancel`);
    say(cancelled(done));
    again();
  };
  return (
    <Dialog title="Cancel this job?" action="Cancel the job" danger close={close} act={act}>
      <p>
        Nothing of it starts any more, for good. What is running is asked to stop. It stays in the list, and
        so does its history.
      </p>
      <Copy curl={asCurl("POST", `/jobs/${job.id}/cancel`)} cli={asCli("jobs", "cancel", job.id)} />
    </Dialog>
  );
}

function CancelQueued({ job, close, again }: Props) {
  const act = async () => {
    const done = await post<CancelAnswer>(`/jobs/${job.id}/cancel-queued`);
    say(cancelled(done));
    again();
  };
  return (
    <Dialog title="Cancel what is queued?" action="Cancel them" danger close={close} act={act}>
      <p>Every execution that has not started is called off. The job goes on with its next fires.</p>
      <Copy
        curl={asCurl("POST", `/jobs/${job.id}/cancel-queued`)}
        cli={asCli("jobs", "cancel-queued", job.id)}
      />
    </Dialog>
  );
}

const cancelled = (done: CancelAnswer) =>
  `${done.cancelled} cancelled, did not and will not start; ${done.asked_to_stop} running asked to stop.`;

function Delete({ job, close }: Props) {
  const act = async () => {
    await remove(`/jobs/${job.id}`);
    say("Deleted. Its history stays.");
    go("/jobs");
  };
  return (
    <Dialog title="Delete this job?" action="Delete" danger close={close} act={act}>
      <p>
        <b>{job.name ?? job.id}</b> is removed, and with it what it has planned. Its history stays.
      </p>
      <Copy curl={asCurl("DELETE", `/jobs/${job.id}`)} cli={asCli("jobs", "delete", job.id)} />
    </Dialog>
  );
}
