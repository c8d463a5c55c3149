/** Brokers under names that targets refer to: whether they can be reached, and how to be let in. */
import { useState } from "preact/hooks";
import { post, put, Refused, remove } from "../api.ts";
import {
  accessOf,
  BROKERS,
  bodyOf,
  type ConnectionDraft,
  draftOf,
  MECHANISMS,
  mechanismOf,
  TOKENS,
  wordsOf,
} from "../connection.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Dialog, say } from "../parts/dialog.tsx";
import { Mark, State } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { address, part } from "../router.ts";
import { mayWrite } from "../session.ts";
import { duration } from "../time.ts";
import type { ConnectionTest, ConnectionView, Connections as Listed, SecretPage } from "../types.ts";

type Asked = { edit: Partial<ConnectionView> } | { remove: ConnectionView } | null;
/** What came of testing one: nothing yet, under way, an answer, or why there is none. */
type Tried = "under way" | ConnectionTest | Refused;

export function Connections() {
  const found = useData<Listed>("/connections", false);
  const [asked, ask] = useState<Asked>(null);
  const [tried, tell] = useState<Record<string, Tried>>({});
  const test = async (name: string) => {
    tell((before) => ({ ...before, [name]: "under way" }));
    const came = await post<ConnectionTest>(`/connections/${part(name)}/test`).catch(
      (error: Refused) => error,
    );
    tell((before) => ({ ...before, [name]: came }));
  };
  return (
    <>
      <div class="head">
        <h1>Connections</h1>
        {mayWrite.value && (
          <button type="button" class="primary" onClick={() => ask({ edit: {} })}>
            New connection
          </button>
        )}
      </div>
      <p class="hint">
        Brokers under names. A job publishes a message to one, and succeeds when the broker acknowledges it.
      </p>
      <section class="card list">
        <Part of={found}>
          {(data) =>
            data.items.length ? (
              <Table
                label="Connections"
                rows={data.items}
                columns={columns(tried, (name) => void test(name), ask)}
                id={(one) => one.name}
              />
            ) : (
              <NoConnections />
            )
          }
        </Part>
      </section>
      <div class="foot">
        <Copy curl={asCurl("GET", "/connections")} cli={asCli("connections", "list")} />
      </div>
      {asked && "edit" in asked && (
        <Edit
          of={asked.edit}
          close={() => ask(null)}
          done={(name) => {
            found.again();
            void test(name);
          }}
        />
      )}
      {asked && "remove" in asked && (
        <Dialog
          title={`Delete ${asked.remove.name}?`}
          action="Delete"
          danger
          close={() => ask(null)}
          act={async () => {
            await remove(`/connections/${part(asked.remove.name)}`);
            say("Deleted.");
            found.again();
          }}
        >
          <p>Only a connection that no job names can be deleted.</p>
        </Dialog>
      )}
    </>
  );
}

function NoConnections() {
  return (
    <Empty title="No connections yet">
      <p>A job can publish a message to Kafka, NATS, RabbitMQ, Redis or SQS instead of calling a URL.</p>
      <pre>tocsin connections put bus --kind nats --address bus.example.com:4222</pre>
    </Empty>
  );
}

const columns = (
  tried: Record<string, Tried>,
  test: (name: string) => void,
  ask: (asked: Asked) => void,
): (Column<ConnectionView> | false)[] => [
  { name: "Name", kind: "name", show: (one) => one.name },
  { name: "Broker", show: (one) => <span class="nowrap">{wordsOf(one.kind)}</span> },
  { name: "Addresses", show: (one) => one.addresses.map((place) => <Address key={place} of={place} />) },
  { name: "Access", show: (one) => accessOf(one) },
  mayWrite.value && { name: "Reached", kind: "words", show: (one) => <Reached of={tried[one.name]} /> },
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
        <button type="button" class="small danger" onClick={() => ask({ remove: one })}>
          Delete…
        </button>
      </span>
    ),
  },
];

const Address = ({ of }: { of: string }) => <div class="place">{of}</div>;

/** What a test said. It is made by the process that answers this page; a worker may stand elsewhere. */
function Reached({ of }: { of: Tried | undefined }) {
  if (!of) return <span class="none">not tested</span>;
  if (of === "under way") return <State state="running" word="testing …" />;
  if (of instanceof Refused) return <Failed words={of.problem.detail} />;
  if (!of.reached) return <Failed words={of.error ?? "not reached"} />;
  return <State state="succeeded" word={`in ${duration(of.took_ms)}`} />;
}

const Failed = ({ words }: { words: string }) => (
  <span class="s-dead" role="alert">
    <Mark state="dead" /> {words}
  </span>
);

interface EditProps {
  of: Partial<ConnectionView>;
  close: () => void;
  done: (name: string) => void;
}

function Edit({ of, close, done }: EditProps) {
  const [name, call] = useState(of.name ?? "");
  const [draft, change] = useState<ConnectionDraft>(() => draftOf(of));
  const set = (changes: Partial<ConnectionDraft>) => change({ ...draft, ...changes });
  const body = bodyOf(draft, of);
  const path = `/connections/${part(name || "name")}`;
  return (
    <Dialog
      title={of.name ? `Change ${of.name}` : "New connection"}
      action="Save and test"
      wide
      close={close}
      not={!name || !draft.addresses.trim()}
      act={async () => {
        await put(path, body);
        say("Saved. Workers follow within three seconds.");
        done(name);
      }}
    >
      <div class="fields">
        {!of.name && (
          <label>
            Name
            <input
              value={name}
              maxLength={63}
              placeholder="bus"
              onInput={(event) => call(event.currentTarget.value)}
            />
          </label>
        )}
        <label>
          Broker
          <select value={draft.kind} onChange={(event) => set({ kind: event.currentTarget.value })}>
            {Object.entries(BROKERS).map(([kind, { words }]) => (
              <option key={kind} value={kind}>
                {words}
              </option>
            ))}
          </select>
        </label>
      </div>
      <label>
        Addresses, a line each: host and port
        <textarea
          rows={2}
          spellcheck={false}
          placeholder={BROKERS[draft.kind]?.example}
          value={draft.addresses}
          onInput={(event) => set({ addresses: event.currentTarget.value })}
        />
      </label>
      <AccessFields draft={draft} set={set} />
      <Copy
        curl={asCurl("PUT", path, body)}
        cli={asCli("connections", "put", name || "name", ...optionsOf(draft))}
      />
    </Dialog>
  );
}

interface FieldsProps {
  draft: ConnectionDraft;
  set: (changes: Partial<ConnectionDraft>) => void;
}

function AccessFields({ draft, set }: FieldsProps) {
  const found = useData<SecretPage>("/secrets?limit=100", false);
  const field = (label: string, name: "ca" | "password" | "token") => (
    <label>
      {label}
      <input
        list="kept-secrets"
        value={draft[name]}
        autocomplete="off"
        placeholder="the name of a secret"
        onInput={(event) => set({ [name]: event.currentTarget.value })}
      />
    </label>
  );
  return (
    <>
      <datalist id="kept-secrets">
        {found.data?.items.map((one) => (
          <option key={one.name} value={one.name} />
        ))}
      </datalist>
      <div class="fields">
        <label>
          {draft.kind === "sqs" ? "Id of the access key" : "User, if it asks for one"}
          <input
            value={draft.username}
            autocomplete="off"
            onInput={(event) => set({ username: event.currentTarget.value })}
          />
        </label>
        {field("Password, from a secret", "password")}
        {TOKENS.includes(draft.kind) &&
          field(
            draft.kind === "sqs" ? "Token of a session, from a secret" : "Or a token, from a secret",
            "token",
          )}
        {draft.kind === "sqs" && (
          <label>
            Region
            <input
              value={draft.region}
              placeholder="eu-central-1"
              onInput={(event) => set({ region: event.currentTarget.value })}
            />
          </label>
        )}
        {draft.kind === "smtp" && (
          <label>
            Sender of its mails
            <input
              value={draft.sender}
              placeholder="tocsin@example.com"
              onInput={(event) => set({ sender: event.currentTarget.value })}
            />
          </label>
        )}
        {draft.kind === "kafka" && (
          <label>
            How it logs in
            <select
              value={draft.mechanism}
              onChange={(event) => set({ mechanism: event.currentTarget.value })}
            >
              {MECHANISMS.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
        )}
        {draft.kind === "rabbitmq" && (
          <label>
            Virtual host
            <input
              value={draft.virtualHost}
              onInput={(event) => set({ virtualHost: event.currentTarget.value })}
            />
          </label>
        )}
        {draft.tls && field("Authorities to trust, from a secret", "ca")}
      </div>
      <label class="check">
        <input type="checkbox" checked={draft.tls} onChange={() => set({ tls: !draft.tls })} />
        <span>by TLS</span>
      </label>
      {draft.kind === "redis" && (
        <label class="check">
          <input
            type="checkbox"
            checked={draft.createsStreams}
            onChange={() => set({ createsStreams: !draft.createsStreams })}
          />
          <span>
            create streams that do not exist <small>else a message to one is rejected</small>
          </span>
        </label>
      )}
      <p class="hint">
        Passwords and tokens are <a href={address("/secrets")}>secrets</a>, here by their names only.
      </p>
    </>
  );
}

/** The same, as options of `tocsin connections put`. */
function optionsOf(draft: ConnectionDraft): string[] {
  const option = (name: string, value: string) => (value.trim() ? [`--${name}`, value.trim()] : []);
  return [
    "--kind",
    draft.kind,
    ...draft.addresses
      .split(/[\s,]+/)
      .filter(Boolean)
      .flatMap((one) => ["--address", one]),
    ...(draft.tls ? ["--tls", ...option("ca-secret", draft.ca)] : []),
    ...option("username", draft.username),
    ...option("password-secret", draft.password),
    ...(TOKENS.includes(draft.kind) ? option("token-secret", draft.token) : []),
    ...(draft.kind === "sqs" ? option("region", draft.region) : []),
    ...(draft.kind === "smtp" ? option("sender", draft.sender) : []),
    ...option("mechanism", mechanismOf(draft) ?? ""),
    ...(draft.kind === "rabbitmq" ? option("virtual-host", draft.virtualHost) : []),
    ...(draft.kind === "redis" && draft.createsStreams ? ["--create-streams"] : []),
  ];
}
