/** API keys: who may do what, since when unused, until when. The text of one is shown once. For operators. */
import { useState } from "preact/hooks";
import { base, post, query, tenant } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copied, Copy, copy } from "../parts/copy.tsx";
import { Dialog, say } from "../parts/dialog.tsx";
import { given, Pages } from "../parts/filters.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { address, part } from "../router.ts";
import { session } from "../session.ts";
import type { FreshKey, Key, KeyPage, Scope } from "../types.ts";

type Asked = "new" | { rotate: Key } | { revoke: Key } | null;
const SCOPES: [Scope, string][] = [
  ["read", "look at everything of its tenant"],
  ["write", "create, change and act on jobs and executions"],
  ["worker", "claim and complete work"],
  ["admin", "operate: all tenants, keys, the fleet"],
];

export function Keys() {
  const page = useData<KeyPage>(`/keys${query({ ...given(["cursor"]), limit: 50 })}`, false);
  const [asked, ask] = useState<Asked>(null);
  const close = () => ask(null);
  return (
    <>
      <div class="head">
        <h1>Keys</h1>
        <button type="button" class="primary" onClick={() => ask("new")}>
          New key
        </button>
      </div>
      <section class="card list">
        <Part of={page}>
          {(data) =>
            data.items.length ? (
              <Table
                label="Keys"
                rows={data.items}
                columns={columns(ask)}
                id={(key) => key.id}
                pale={(key) => !key.valid}
              />
            ) : (
              <Empty title="No keys but the first">
                <p>
                  Give each program and each person a key of their own: it can be ended alone, and the audit
                  names it.
                </p>
              </Empty>
            )
          }
        </Part>
      </section>
      <div class="foot">
        <Copy curl={asCurl("GET", "/keys")} cli={asCli("keys", "list")} />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
      {asked === "new" && <NewKey close={close} again={page.again} />}
      {asked !== null && asked !== "new" && "rotate" in asked && (
        <RotateKey of={asked.rotate} close={close} again={page.again} />
      )}
      {asked !== null && asked !== "new" && "revoke" in asked && (
        <Revoke of={asked.revoke} close={close} again={page.again} />
      )}
    </>
  );
}

const columns = (ask: (asked: Asked) => void): Column<Key>[] => [
  {
    name: "Name",
    kind: "name",
    show: (key) => (
      <>
        {key.name} {key.id === session.value?.key_id && <small>this session's</small>}
      </>
    ),
  },
  { name: "Begins", show: (key) => <code>{key.prefix}</code> },
  {
    name: "Tenant",
    show: (key) => <a href={address(`/tenants/${part(key.tenant)}`)}>{key.tenant}</a>,
  },
  { name: "Scopes", show: (key) => key.scopes.join(", ") },
  { name: "Last used", show: (key) => <Time at={key.last_used_at} far /> },
  { name: "Valid", show: (key) => <Validity of={key} /> },
  {
    name: "Actions",
    kind: "number",
    show: (key) =>
      key.valid ? (
        <span class="actions end">
          <button type="button" class="small" onClick={() => ask({ rotate: key })}>
            Rotate…
          </button>
          <button type="button" class="small danger" onClick={() => ask({ revoke: key })}>
            Revoke…
          </button>
        </span>
      ) : null,
  },
];

function Validity({ of: key }: { of: Key }) {
  if (key.revoked_at)
    return (
      <span class="nowrap">
        <State state="cancelled" word="revoked" /> <Time at={key.revoked_at} far />
      </span>
    );
  if (!key.valid) return <State state="expired" word="ended" />;
  return key.expires_at ? (
    <span class="nowrap">
      ends <Time at={key.expires_at} far />
    </span>
  ) : (
    <span class="none">without end</span>
  );
}

function NewKey({ close, again }: { close: () => void; again: () => void }) {
  const [made, learn] = useState<FreshKey | null>(null);
  const [name, call] = useState("");
  const [owner, own] = useState("");
  const [life, last] = useState("90d");
  const [scopes, allow] = useState<Scope[]>(["read"]);
  if (made) return <Fresh made={made} close={close} />;
  const body = { name, scopes, tenant: owner || null, expires_in: life || null };
  const act = async () => {
    learn(await post<FreshKey>("/keys", body));
    again();
    return "stay";
  };
  return (
    <Dialog title="New key" action="Make it" close={close} act={act} not={!name || !scopes.length}>
      <label>
        Name: who or what uses it
        <input value={name} maxLength={200} onInput={(event) => call(event.currentTarget.value)} />
      </label>
      <fieldset class="plain">
        <legend>May</legend>
        {SCOPES.map(([scope, words]) => (
          <label key={scope} class="check">
            <input
              type="checkbox"
              checked={scopes.includes(scope)}
              onChange={() =>
                allow(scopes.includes(scope) ? scopes.filter((one) => one !== scope) : [...scopes, scope])
              }
            />
            <span>
              <b>{scope}</b> <small>{words}</small>
            </span>
          </label>
        ))}
      </fieldset>
      <div class="row">
        <label>
          Tenant
          <input value={owner} placeholder="yours" onInput={(event) => own(event.currentTarget.value)} />
        </label>
        <label>
          Ends after
          <input value={life} placeholder="never" onInput={(event) => last(event.currentTarget.value)} />
        </label>
      </div>
      <Copy curl={asCurl("POST", "/keys", body)} cli={asCli("keys", "create", ...optionsOf(body))} />
    </Dialog>
  );
}

function optionsOf(body: {
  name: string;
  scopes: Scope[];
  tenant: string | null;
  expires_in: string | null;
}) {
  const { name, scopes, tenant: owner, expires_in } = body;
  return [
    name,
    ...scopes.flatMap((scope) => ["--scope", scope]),
    ...(expires_in ? ["--expires-in", expires_in] : []),
    ...(owner && !tenant.value ? ["--tenant", owner] : []),
  ];
}

/** The text of a key, once. */
function Fresh({ made, close }: { made: FreshKey; close: () => void }) {
  const curl = `curl -s '${location.origin}${base}/v1/whoami' -H 'Authorization: Bearer ${made.text}'`;
  return (
    <Dialog title={`The key “${made.key.name}”`} only="Done" wide close={close}>
      <p class="warning">It is shown this once. Only its hash is kept.</p>
      <pre>{made.text}</pre>
      <p class="actions">
        <button type="button" class="primary" onClick={() => void copy(made.text)}>
          Copy the key
        </button>
        <button type="button" onClick={() => void copy(curl)}>
          Copy a curl that uses it
        </button>
      </p>
    </Dialog>
  );
}

function RotateKey({ of: key, close, again }: { of: Key; close: () => void; again: () => void }) {
  const [made, learn] = useState<FreshKey | null>(null);
  const [overlap, change] = useState("24h");
  if (made) return <Fresh made={made} close={close} />;
  const act = async () => {
    learn(await post<FreshKey>(`/keys/${part(key.id)}/rotate`, { overlap }));
    again();
    return "stay";
  };
  return (
    <Dialog title={`Rotate “${key.name}”`} action="Rotate" close={close} act={act}>
      <p>A new key with the same tenant and scopes takes its place. The old one works for a while longer.</p>
      <label>
        The old one works for
        <input value={overlap} onInput={(event) => change(event.currentTarget.value)} />
      </label>
      <Copy
        curl={asCurl("POST", `/keys/${part(key.id)}/rotate`, { overlap })}
        cli={asCli("keys", "rotate", key.id, "--overlap", overlap)}
      />
    </Dialog>
  );
}

function Revoke({ of: key, close, again }: { of: Key; close: () => void; again: () => void }) {
  const own = key.id === session.value?.key_id;
  return (
    <Dialog
      title={`Revoke “${key.name}”?`}
      action="Revoke"
      danger
      close={close}
      act={async () => {
        await post(`/keys/${part(key.id)}/revoke`);
        say("Revoked.");
        again();
      }}
    >
      <p>
        It is refused within seconds, everywhere, for good
        {own ? "; you are logged in with it and will be logged out" : ""}. Last used{" "}
        <Time at={key.last_used_at} far />.
      </p>
      <p class="hint">
        From: <Copied text={key.prefix} name="its prefix" />
      </p>
      <Copy curl={asCurl("POST", `/keys/${part(key.id)}/revoke`)} cli={asCli("keys", "revoke", key.id)} />
    </Dialog>
  );
}
