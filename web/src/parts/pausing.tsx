/** Why something is paused, and for how long. The same for jobs and queues. */
import { useState } from "preact/hooks";

const SPANS: [string, number][] = [
  ["until resumed", 0],
  ["1 h", 1],
  ["8 h", 8],
  ["1 day", 24],
  ["1 week", 168],
];
const HOUR = 3_600_000;
const MINUTE = 60_000;

interface Pausing {
  body: { reason?: string; until?: string };
  /** The same, for the command line. */
  options: string[];
  fields: preact.VNode;
}

export function usePausing(): Pausing {
  const [reason, tell] = useState("");
  const [hours, last] = useState(0);
  const until = new Date(Math.round(Date.now() / MINUTE) * MINUTE + hours * HOUR).toISOString();
  const body = { ...(reason ? { reason } : {}), ...(hours ? { until } : {}) };
  const fields = (
    <>
      <label>
        Why? Others will read it.
        <input value={reason} maxLength={500} onInput={(event) => tell(event.currentTarget.value)} />
      </label>
      <div class="switch" role="group" aria-label="For how long">
        {SPANS.map(([words, length]) => (
          <button key={words} type="button" aria-pressed={hours === length} onClick={() => last(length)}>
            {words}
          </button>
        ))}
      </div>
    </>
  );
  return { body, options: Object.entries(body).flatMap(([name, value]) => [`--${name}`, value]), fields };
}
