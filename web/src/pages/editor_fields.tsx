/** The fields of a job's form. A problem that names a field stands under it. */
import { useState } from "preact/hooks";
import type { Refused } from "../api.ts";
import { wordsOf } from "../connection.ts";
import { KINDS } from "../credentials.ts";
import { type Draft, FRESH, local, PLACES, placeOf } from "../draft.ts";
import { useData } from "../hooks.ts";
import { address } from "../router.ts";
import { servedBy } from "../served.ts";
import type { Connections, SecretPage, WorkerPage } from "../types.ts";

export interface Parts {
  draft: Draft;
  set: (changes: Partial<Draft>) => void;
  problem: Refused | null;
}

export function WhenFields({ draft, set, problem }: Parts) {
  const recurring = draft.when === "every" || draft.when === "cron";
  return (
    <>
      {draft.when === "every" && (
        <Field label="every" problem={problem}>
          <input
            value={draft.every}
            placeholder="5m, 1h30m, 10s"
            onInput={(e) => set({ every: e.currentTarget.value })}
          />
        </Field>
      )}
      {draft.when === "in" && (
        <Field label="once, in" problem={problem}>
          <input value={draft.in} placeholder="10m" onInput={(e) => set({ in: e.currentTarget.value })} />
        </Field>
      )}
      {draft.when === "several" && (
        <Field label="rules as JSON; it fires when any of them does" problem={problem}>
          <textarea
            rows={5}
            spellcheck={false}
            value={draft.several}
            onInput={(e) => set({ several: e.currentTarget.value })}
          />
        </Field>
      )}
      {draft.when === "at" && (
        <Field label={`once, at (${local})`} problem={problem}>
          <input
            type="datetime-local"
            step="1"
            value={draft.at}
            onInput={(e) => set({ at: e.currentTarget.value })}
          />
        </Field>
      )}
      {draft.when === "cron" && (
        <>
          <Field label="minute · hour · day · month · weekday" problem={problem}>
            <input
              class="cron"
              value={draft.cron}
              spellcheck={false}
              onInput={(e) => set({ cron: e.currentTarget.value })}
            />
          </Field>
          <div class="row">
            <Field label="zone">
              <input list="zones" value={draft.zone} onInput={(e) => set({ zone: e.currentTarget.value })} />
              <datalist id="zones">
                {Intl.supportedValuesOf("timeZone").map((one) => (
                  <option key={one} value={one} />
                ))}
              </datalist>
            </Field>
            <Field label="when clocks change">
              <select value={draft.dst} onChange={(e) => set({ dst: e.currentTarget.value })}>
                {["cron", "literal", "once"].map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            </Field>
          </div>
        </>
      )}
      {recurring && (
        <Field label="spread within (jitter), if many jobs share an instant">
          <input
            value={draft.jitter}
            placeholder="none"
            onInput={(e) => set({ jitter: e.currentTarget.value })}
          />
        </Field>
      )}
    </>
  );
}

export function TargetFields({ draft, set, problem }: Parts) {
  return (
    <>
      <div class="row">
        <Field label="method">
          <select value={draft.method} onChange={(e) => set({ method: e.currentTarget.value })}>
            {["POST", "GET", "PUT", "PATCH", "DELETE"].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
        <Field label="URL" grow problem={problem}>
          <input
            type="url"
            value={draft.url}
            required
            placeholder="https://example.com/hook"
            onInput={(e) => set({ url: e.currentTarget.value })}
          />
        </Field>
      </div>
      <BodyField draft={draft} set={set} />
      <CredentialFields draft={draft} set={set} />
    </>
  );
}

/** A task, of those that workers serve or of those to come, and what it is given. */
export function TaskFields({ draft, set, problem }: Parts) {
  const found = useData<WorkerPage>("/workers?limit=100", false);
  return (
    <>
      <Field label="task" problem={problem}>
        <input
          value={draft.task}
          required
          list="served-tasks"
          placeholder="shop.send_receipt"
          onInput={(e) => set({ task: e.currentTarget.value })}
        />
      </Field>
      <datalist id="served-tasks">
        {servedBy(found.data?.items ?? []).map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <Field label="payload: JSON, or text">
        <textarea
          rows={4}
          value={draft.payload}
          spellcheck={false}
          onInput={(e) => set({ payload: e.currentTarget.value })}
        />
      </Field>
    </>
  );
}

const EXAMPLES: Record<string, string> = {
  kafka: "due",
  nats: "due.orders",
  sqs: "https://sqs.eu-central-1.amazonaws.com/123456789012/due",
};

/** A message: through which connection, to where in its broker, and with what body. */
export function MessageFields({ draft, set, problem }: Parts) {
  const found = useData<Connections>("/connections", false);
  const known = (found.data?.items ?? []).filter(({ kind }) => kind in PLACES);
  if (found.data && !known.length && !draft.connection) {
    return (
      <p class="hint">
        There is no connection yet: <a href={address("/connections")}>name a broker</a> first.
      </p>
    );
  }
  const choose = (name: string) =>
    set({ connection: name, broker: known.find((one) => one.name === name)?.kind ?? draft.broker });
  return (
    <>
      <div class="row">
        <Field label="connection" grow>
          <select value={draft.connection} required onChange={(e) => choose(e.currentTarget.value)}>
            <option value="">choose one</option>
            {known.map((one) => (
              <option key={one.name} value={one.name}>
                {one.name}: {wordsOf(one.kind)}
              </option>
            ))}
          </select>
        </Field>
        {draft.broker === "rabbitmq" && (
          <Field label="exchange">
            <input
              value={draft.exchange}
              placeholder="the default one"
              onInput={(e) => set({ exchange: e.currentTarget.value })}
            />
          </Field>
        )}
        <Field label={placeOf(draft.broker).replace("_", " ")} grow problem={problem}>
          <input
            value={draft.place}
            required
            placeholder={EXAMPLES[draft.broker] ?? "orders"}
            onInput={(e) => set({ place: e.currentTarget.value })}
          />
        </Field>
        {draft.broker === "kafka" && (
          <Field label="key">
            <input
              value={draft.key}
              placeholder="none"
              onInput={(e) => set({ key: e.currentTarget.value })}
            />
          </Field>
        )}
      </div>
      <BodyField draft={draft} set={set} />
    </>
  );
}

function BodyField({ draft, set }: Omit<Parts, "problem">) {
  return (
    <Field label="body: JSON, or text">
      <textarea
        rows={4}
        value={draft.body}
        spellcheck={false}
        onInput={(e) => set({ body: e.currentTarget.value })}
      />
    </Field>
  );
}

/** Headers, and how the call proves its caller. Values can lie in a secret, so that they are not shown here. */
function CredentialFields({ draft, set }: Omit<Parts, "problem">) {
  const found = useData<SecretPage>("/secrets?limit=100", false);
  const secrets = found.data?.items.map((one) => `secret:${one.name}`) ?? [];
  const kinds = KINDS.includes(draft.auth) ? KINDS : [...KINDS, draft.auth];
  return (
    <details class="more" open={draft.headers !== "" || draft.auth !== "none"}>
      <summary>Headers and credentials</summary>
      <Field label="headers, a line each; secret:… takes a value from a secret">
        <textarea
          rows={2}
          value={draft.headers}
          spellcheck={false}
          placeholder={"X-Team: billing\nX-Token: secret:billing-token"}
          onInput={(e) => set({ headers: e.currentTarget.value })}
        />
      </Field>
      <div class="row">
        <Field label="credentials">
          <select value={draft.auth} onChange={(e) => set({ auth: e.currentTarget.value })}>
            {kinds.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
        {draft.auth === "basic" && (
          <Field label="user name">
            <input value={draft.username} onInput={(e) => set({ username: e.currentTarget.value })} />
          </Field>
        )}
        {(draft.auth === "bearer" || draft.auth === "basic") && (
          <Field label={draft.auth === "bearer" ? "token" : "password"} grow>
            <input
              list="secrets"
              value={draft.credential}
              placeholder="secret:…"
              autocomplete="off"
              onInput={(e) => set({ credential: e.currentTarget.value })}
            />
            <datalist id="secrets">
              {secrets.map((one) => (
                <option key={one} value={one} />
              ))}
            </datalist>
          </Field>
        )}
      </div>
    </details>
  );
}

interface FieldProps {
  label: string;
  problem?: Refused | null;
  grow?: boolean;
  children: preact.ComponentChildren;
}

export function Field({ label, problem, grow, children }: FieldProps) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child
    <label class={grow ? "field grow" : "field"}>
      <span>{label}</span>
      {children}
      {problem && <em role="alert">{problem.problem.detail}</em>}
    </label>
  );
}

const OVERLAPS: Record<string, string> = {
  allow: "run both",
  skip: "skip the later one",
  queue: "let the later one wait",
  collapse: "run once more after it, however many came",
  replace: "stop the earlier one",
};
const MISFIRES: Record<string, string> = {
  fire_once: "run the latest one",
  fire_all: "run them all",
  skip: "skip them",
};

/** What happens when it fails, overlaps or is late: each policy as a sentence. */
export function PolicyFields({ draft, set }: Omit<Parts, "problem">) {
  return (
    <>
      <div class="row">
        <Field label="if it fails, attempts at most">
          <input
            type="number"
            min={1}
            max={100}
            value={draft.attempts}
            onInput={(e) => set({ attempts: e.currentTarget.value })}
          />
        </Field>
        <Field label="while one still runs">
          <Choice words={OVERLAPS} value={draft.overlap} choose={(overlap) => set({ overlap })} />
        </Field>
      </div>
      <div class="row">
        <Field label="fires that were missed">
          <Choice words={MISFIRES} value={draft.misfire} choose={(misfire) => set({ misfire })} />
        </Field>
      </div>
      <div class="row">
        <Field label="queue">
          <input value={draft.queue} onInput={(e) => set({ queue: e.currentTarget.value })} />
        </Field>
        <Field label="tags, separated by commas">
          <input value={draft.tags} onInput={(e) => set({ tags: e.currentTarget.value })} />
        </Field>
      </div>
      <MorePolicies draft={draft} set={set} />
    </>
  );
}

const RARE = ["timeout", "priority", "pauseAfter", "startWithin", "limitKey"] as const;

/** What is rarely changed. It is open where something of it was. */
function MorePolicies({ draft, set }: Omit<Parts, "problem">) {
  const [open] = useState(RARE.some((name) => draft[name] !== FRESH[name]));
  const number = (
    label: string,
    name: "priority" | "pauseAfter" | "limitParallel" | "limitRate",
    least: number,
    hint = "",
  ) => (
    <Field label={label}>
      <input
        type="number"
        min={least}
        value={draft[name]}
        placeholder={hint}
        onInput={(e) => set({ [name]: e.currentTarget.value })}
      />
    </Field>
  );
  const text = (
    label: string,
    name: "timeout" | "backoff" | "startWithin" | "limitKey" | "limitPer",
    hint: string,
  ) => (
    <Field label={label}>
      <input value={draft[name]} placeholder={hint} onInput={(e) => set({ [name]: e.currentTarget.value })} />
    </Field>
  );
  return (
    <details class="more" open={open}>
      <summary>Times, priority, limits, pause by itself</summary>
      <div class="row">
        {text("an attempt may take", "timeout", "30s")}
        {text("wait before the first retry", "backoff", "1s")}
        {text("expire if not started within", "startWithin", "never")}
      </div>
      <div class="row">
        {number("priority, 0 is the most urgent", "priority", 0)}
        {number("pause after failures in a row", "pauseAfter", 1, "never")}
      </div>
      <div class="row">
        {text("limit key, shared by jobs", "limitKey", "vendor")}
        {number("of it at once, at most", "limitParallel", 1, "any number")}
        {number("starts of it, at most", "limitRate", 1, "any number")}
        {text("in each", "limitPer", "1s")}
      </div>
    </details>
  );
}

interface ChoiceProps {
  words: Record<string, string>;
  value: string;
  choose: (value: string) => void;
}

function Choice({ words, value, choose }: ChoiceProps) {
  return (
    <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
      {Object.entries(words).map(([name, meaning]) => (
        <option key={name} value={name}>
          {name}: {meaning}
        </option>
      ))}
    </select>
  );
}
