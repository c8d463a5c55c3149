/** What the words mean: states, reasons and policies, a paragraph each, under an address of its own. */
import { useEffect } from "preact/hooks";
import { State } from "../parts/marks.tsx";
import { param } from "../router.ts";

type Words = [name: string, meaning: string][];

const EXECUTIONS: Words = [
  [
    "queued",
    "It is planned and waits for its instant, for a worker with room, or for something that explain names.",
  ],
  ["claimed", "A worker holds it and fires it on the instant. It can still be cancelled for good."],
  ["running", "An attempt is under way. Between two attempts it is queued again."],
  ["succeeded", "An attempt was answered with an expected status."],
  [
    "dead",
    "Its attempts are used up, or an error came that no retry mends. It is a dead letter until it is replayed or discarded.",
  ],
  ["skipped", "It was due and did not run, on purpose. The reason says why."],
  ["cancelled", "It was called off before it started, or asked to stop while it ran."],
  ["expired", "It could not start within the time that its job allows."],
];
const REASONS: Words = [
  ["overlap", "Another execution of the job was running or waiting."],
  ["paused", "Missed while the job was paused, and its misfire policy does not run it."],
  ["blackout", "Inside a date or a calendar that the schedule excludes."],
  ["skip_next", "A person asked for it to be skipped."],
  ["misfire_skipped", "Missed, and the misfire policy is to skip."],
  ["misfire_superseded", "Missed, and a later one runs instead."],
  ["misfire_too_old", "Missed, and older than the lookback."],
  ["misfire_over_max", "Missed, and more than the policy's maximum were."],
];
const JOBS: Words = [
  ["active", "It fires by its schedule."],
  ["paused", "Its fires are held until it is resumed, by a person or at an instant."],
  ["completed", "It has no further fires: a one-off that ran, or a schedule that ended."],
  ["cancelled", "Nothing of it starts any more. Its history stays."],
];
const ALERTS: Words = [
  ["pending", "A rule found it, and it has not lasted for as long as the rule waits before it tells."],
  ["firing", "A rule finds it now. Its channels were told, unless these are quiet times."],
  ["resolved", "It was not found for a minute. Its channels are told that, too."],
];
const POLICIES: Words = [
  ["retry", "How often an execution is tried, and how long it waits between attempts."],
  [
    "overlap",
    "What happens to a fire while an earlier execution still runs: allow, skip, queue, collapse, replace.",
  ],
  [
    "misfire",
    "What happens to fires that were missed: the latest runs, all run, or none. Grace and lookback bound it.",
  ],
  ["dst", "What happens when a clock change removes or repeats a local time: cron, literal or once."],
  ["jitter", "Fires of many jobs are spread over a while, each job always at the same place in it."],
  [
    "limit key",
    "Executions that share a key never run more than so many at a time, whichever job they belong to.",
  ],
  ["resting host", "A host that keeps failing is left alone for a while. That costs no attempts."],
  ["brake", "An operation holds by itself when too many of its latest failed."],
];

export function Words() {
  const named = param("of");
  useEffect(() => document.getElementById(`word-${named}`)?.scrollIntoView({ block: "center" }), [named]);
  return (
    <>
      <h1>Words</h1>
      <p class="hint">The same words are used by the API, the command line and the documentation.</p>
      <Group title="States of an execution" words={EXECUTIONS} named={named} marked />
      <Group title="Why something was skipped" words={REASONS} named={named} />
      <Group title="States of a job" words={JOBS} named={named} marked />
      <Group title="States of an alert" words={ALERTS} named={named} />
      <Group title="Policies and limits" words={POLICIES} named={named} />
    </>
  );
}

/** A name that may go on in the next line after an underscore. */
const breakable = (name: string) => name.split(/(?<=_)/).flatMap((part) => [part, <wbr key={part} />]);

function Group({
  title,
  words,
  named,
  marked,
}: {
  title: string;
  words: Words;
  named: string;
  marked?: boolean;
}) {
  return (
    <section class="card">
      <h2>{title}</h2>
      <dl class="facts words-list">
        {words.map(([name, meaning]) => (
          <div key={name} id={`word-${name}`} class={name === named ? "fact named" : "fact"}>
            <dt>{marked ? <State state={name} /> : breakable(name)}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
