/** Channels: where alerts are told, and whether they get there. */
import { useState } from "preact/hooks";
import { get, type Known, post, put, Refused, remove } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Dialog, say } from "../parts/dialog.tsx";
import { Mark, State } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { address, part } from "../router.ts";
import { mayWrite } from "../session.ts";
import type {
  AlertChannels,
  AlertChannelTest,
  AlertChannelView,
  Connections,
  ExecutionPage,
  SecretPage,
} from "../types.ts";

/** A channel as the API tells it: what is as it comes is left out. */
type Channel = Pick<AlertChannelView, "name" | "kind"> & Partial<AlertChannelView>;
type Asked = { edit: Partial<Channel> } | { remove: string } | null;
/** What came of a test message: under way, where its job is seen and how it ended, or why there is none. */
type Tried = "under way" | { job: string; state: string; reason: string | null } | Refused;

const KINDS: Record<AlertChannelView["kind"], string> = {
  webhook: "a signed webhook",
  slack: "Slack, or what takes the same",
  json: "a body of your own",
  mail: "a mail",
};
const METHODS = ["POST", "PUT", "GET"];
const LOOK_MS = 500;
const LOOKS = 60;
const OVER = ["succeeded", "dead", "expired", "cancelled"];

export function Channels({ of }: { of: Known<AlertChannels> & { again: () => void } }) {
  const [asked, ask] = useState<Asked>(null);
  const [tried, tell] = useState<Record<string, Tried>>({});
  const close = () => ask(null);
  const test = async (name: string) => {
    const learn = (came: Tried) => tell((before) => ({ ...before, [name]: came }));
    learn("under way");
    try {
      learn(await delivered((await post<AlertChannelTest>(`/alert-channels/${part(name)}/test`)).job));
    } catch (error) {
      if (error instanceof Refused) learn(error);
    }
  };
  return (
    <section class="card list">
      <div class="head wrap">
        <h2>Channels</h2>
        {mayWrite.value && (
          <button type="button" class="small" onClick={() => ask({ edit: {} })}>
            New channel
          </button>
        )}
      </div>
      <Part of={of}>
        {(data) =>
          data.items.length ? (
            <Table
              label="Channels"
              rows={data.items as Channel[]}
              columns={columns(tried, (name) => void test(name), ask)}
              id={(one) => one.name}
            />
          ) : (
            <p class="calm">A channel is where alerts are told: Slack, a pager, a webhook of yours.</p>
          )
        }
      </Part>
      {asked && "edit" in asked && <Edit of={asked.edit} close={close} again={of.again} />}
      {asked && "remove" in asked && (
        <Dialog
          title={`Delete the channel ${asked.remove}?`}
          action="Delete"
          danger
          close={close}
          act={async () => {
            await remove(`/alert-channels/${part(asked.remove)}`);
            say("Deleted.");
            of.again();
          }}
        >
          <p>Only a channel that no rule names can be deleted.</p>
        </Dialog>
      )}
    </section>
  );
}

/** How the message of a test ended. It is an ordinary job: its retries go on after the page is closed. */
async function delivered(job: string): Promise<Tried> {
  for (let look = 0; ; look++) {
    const [last] = (await get<ExecutionPage>(`/jobs/${job}/executions?limit=1`)).items;
    const attempt = last?.attempts.at(-1);
    const failed = attempt && attempt.verdict !== null && attempt.verdict !== "succeeded";
    if (last && (OVER.includes(last.state) || failed || look === LOOKS))
      return { job, state: last.state, reason: attempt?.error ?? last.reason };
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
}

const columns = (
  tried: Record<string, Tried>,
  test: (name: string) => void,
  ask: (asked: Asked) => void,
): (Column<Channel> | false)[] => [
  { name: "Name", kind: "name", show: (one) => one.name },
  { name: "Takes", show: (one) => KINDS[one.kind] ?? one.kind },
  {
    name: "Address",
    kind: "words",
    show: (one) => (
      <span class="break">
        {one.url ?? `${one.to?.join(", ")} by ${one.connection}`}
        {one.path_secret && <small>{`{secret ${one.path_secret.secret}}`}</small>}
      </span>
    ),
  },
  mayWrite.value && { name: "Arrived", kind: "words", show: (one) => <Arrived of={tried[one.name]} /> },
  mayWrite.value && {
    name: "Actions",
    kind: "number",
    show: (one) => (
      <span class="actions end">
        <button
          type="button"
          class="small"
          disabled={tried[one.name] === "under way"}
          onClick={() => test(one.name)}
        >
          Test
        </button>
        <button type="button" class="small" onClick={() => ask({ edit: one })}>
          Edit…
        </button>
        <button type="button" class="small danger" onClick={() => ask({ remove: one.name })}>
          Delete…
        </button>
      </span>
    ),
  },
];

function Arrived({ of }: { of: Tried | undefined }) {
  if (!of) return <span class="none">not tested</span>;
  if (of === "under way") return <State state="running" word="on its way …" />;
  if (of instanceof Refused)
    return (
      <span class="s-dead" role="alert">
        <Mark state="dead" /> {of.problem.detail}
      </span>
    );
  return (
    <a href={address(`/jobs/${of.job}`)}>
      <State state={of.state} word={of.state === "succeeded" ? "it arrived" : (of.reason ?? of.state)} />
    </a>
  );
}

/** The headers as lines: `Authorization: pager-token` sends the value of that secret. */
const linesOf = (of: Partial<Channel>) =>
  Object.entries(of.headers ?? {})
    .map(([name, value]) => `${name}: ${(value as { secret: string }).secret}`)
    .join("\n");

const headersOf = (lines: string) =>
  Object.fromEntries(
    lines
      .split("\n")
      .filter((line) => line.trim())
      .map((line) => {
        const [name = "", ...secret] = line.split(":");
        return [
          name.trim(),
          {
            secret: secret
              .join(":")
              .trim()
              .replace(/^secret:/, ""),
          },
        ];
      }),
  );

interface Draft {
  kind: Channel["kind"];
  url: string;
  method: string;
  /** The secret that ends the path. */
  end: string;
  headers: string;
  own: string;
  connection: string;
  to: string;
}

const draftOf = (of: Partial<Channel>): Draft => ({
  kind: of.kind ?? "slack",
  url: of.url ?? "",
  method: of.method ?? "POST",
  end: of.path_secret?.secret ?? "",
  headers: linesOf(of),
  own: of.body === undefined ? OWN : JSON.stringify(of.body, null, 2),
  connection: of.connection ?? "",
  to: (of.to ?? []).join("\n"),
});

/** The body of a PUT, or null where what was typed is no JSON. */
function bodyOf({ kind, url, method, end, headers, own, connection, to }: Draft): Body | null {
  if (kind === "mail") return { kind, connection, to: to.split(/[\s,]+/).filter(Boolean) };
  const parsed = kind === "json" ? readable(own) : {};
  if (!parsed) return null;
  return {
    kind,
    url,
    ...(method === "POST" ? {} : { method }),
    ...(end ? { path_secret: { secret: end } } : {}),
    ...(headers.trim() ? { headers: headersOf(headers) } : {}),
    ...parsed,
  };
}

function Edit({ of, close, again }: { of: Partial<Channel>; close: () => void; again: () => void }) {
  const [name, call] = useState(of.name ?? "");
  const [draft, change] = useState(() => draftOf(of));
  const set = (changes: Partial<Draft>) => change({ ...draft, ...changes });
  const path = `/alert-channels/${part(name || "name")}`;
  const body = bodyOf(draft);
  const whole = draft.kind === "mail" ? draft.connection && draft.to.trim() : draft.url;
  return (
    <Dialog
      title={of.name ? `Change ${of.name}` : "New channel"}
      action="Save"
      wide
      close={close}
      not={!name || !whole || !body}
      act={async () => {
        await put(path, body);
        say("Saved. “Test” sends a message to it.");
        again();
      }}
    >
      <div class="fields">
        {!of.name && (
          <label>
            Name
            <input
              value={name}
              maxLength={63}
              placeholder="ops"
              onInput={(event) => call(event.currentTarget.value)}
            />
          </label>
        )}
        <label>
          Takes
          <select
            value={draft.kind}
            onChange={(event) => set({ kind: event.currentTarget.value as Channel["kind"] })}
          >
            {Object.entries(KINDS).map(([one, words]) => (
              <option key={one} value={one}>
                {words}
              </option>
            ))}
          </select>
        </label>
      </div>
      {draft.kind === "mail" ? (
        <MailFields draft={draft} set={set} />
      ) : (
        <CallFields draft={draft} set={set} wrong={!body} />
      )}
      {body && (
        <Copy
          curl={asCurl("PUT", path, body)}
          {...(draft.kind === "json" ? {} : { cli: cliOf(name, body) })}
        />
      )}
    </Dialog>
  );
}

interface FieldsProps {
  draft: Draft;
  set: (changes: Partial<Draft>) => void;
}

/** Who gets the mail, and through which server. */
function MailFields({ draft, set }: FieldsProps) {
  const found = useData<Connections>("/connections", false);
  const servers = (found.data?.items ?? []).filter(({ kind }) => kind === "smtp");
  return (
    <>
      <label>
        Mail server
        <select value={draft.connection} onChange={(event) => set({ connection: event.currentTarget.value })}>
          <option value="">choose one</option>
          {servers.map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {found.data && !servers.length && (
        <p class="hint">
          There is none yet: <a href={address("/connections")}>name one</a> first.
        </p>
      )}
      <label>
        To, an address a line
        <textarea
          rows={2}
          spellcheck={false}
          value={draft.to}
          placeholder="ops@example.com"
          onInput={(event) => set({ to: event.currentTarget.value })}
        />
      </label>
    </>
  );
}

/** Where it is sent, how, and with which credentials. */
function CallFields({ draft, set, wrong }: FieldsProps & { wrong: boolean }) {
  const secrets = useData<SecretPage>("/secrets?limit=100", false);
  return (
    <>
      <div class="row">
        <label class="field">
          Method
          <select value={draft.method} onChange={(event) => set({ method: event.currentTarget.value })}>
            {METHODS.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <label class="field grow">
          URL
          <input
            type="url"
            value={draft.url}
            placeholder="https://hooks.slack.com/services/"
            onInput={(event) => set({ url: event.currentTarget.value })}
          />
        </label>
      </div>
      <label>
        The end of its path, if that is a credential: the name of a secret
        <input
          list="channel-secrets"
          value={draft.end}
          autocomplete="off"
          placeholder="slack-path"
          onInput={(event) => set({ end: event.currentTarget.value })}
        />
        <datalist id="channel-secrets">
          {secrets.data?.items.map((one) => (
            <option key={one.name} value={one.name} />
          ))}
        </datalist>
      </label>
      <label>
        Headers, a line each, with the names of secrets as values
        <textarea
          rows={2}
          spellcheck={false}
          value={draft.headers}
          placeholder="Authorization: pager-token"
          onInput={(event) => set({ headers: event.currentTarget.value })}
        />
      </label>
      {draft.kind === "json" && (
        <label>
          Body, JSON; {"{title}, {text}, {state}, {rule}, {kind}, {tenant} and {at}"} are filled in
          <textarea
            rows={5}
            spellcheck={false}
            value={draft.own}
            onInput={(event) => set({ own: event.currentTarget.value })}
          />
          {wrong && <em role="alert">This is not JSON.</em>}
        </label>
      )}
      <p class="hint">
        Credentials are <a href={address("/secrets")}>secrets</a>, here by their names only.
      </p>
    </>
  );
}

const OWN = JSON.stringify(
  { event_action: "{state}", payload: { summary: "{title}", details: "{text}" } },
  null,
  2,
);

/** A body that was typed, or null where it is no JSON. */
function readable(text: string): { body: unknown } | null {
  try {
    return { body: JSON.parse(text) };
  } catch {
    return null;
  }
}

interface Body {
  kind: string;
  url?: string;
  method?: string;
  path_secret?: { secret: string };
  headers?: Record<string, { secret: string }>;
  connection?: string;
  to?: string[];
  body?: unknown;
}

/** The same, as a command. A body of one's own is read from a file there. */
function cliOf(name: string, body: Body): string {
  const option = (flag: string, value: string | undefined) => (value ? [flag, value] : []);
  return asCli(
    "alerts",
    "channels",
    "put",
    name || "name",
    "--kind",
    body.kind,
    ...option("--to", body.url),
    ...(body.to ?? []).flatMap((one) => ["--to", one]),
    ...option("--connection", body.connection),
    ...option("--method", body.method),
    ...option("--path-secret", body.path_secret?.secret),
    ...Object.entries(body.headers ?? {}).flatMap(([header, { secret }]) => [
      "--header",
      `${header}=${secret}`,
    ]),
  );
}
