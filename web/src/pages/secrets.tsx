/** Values that targets name and that cannot be read back, and the secret that requests are signed with. */
import { useState } from "preact/hooks";
import { post, put, query, remove } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copied, Copy } from "../parts/copy.tsx";
import { Dialog, say } from "../parts/dialog.tsx";
import { given, Pages } from "../parts/filters.tsx";
import { Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { part } from "../router.ts";
import { mayWrite } from "../session.ts";
import type { Secret, SecretPage, WebhookSecrets } from "../types.ts";

type Asked = { put: string | null } | { remove: string } | "rotate" | null;

export function Secrets() {
  const page = useData<SecretPage>(`/secrets${query({ ...given(["cursor"]), limit: 50 })}`, false);
  const [asked, ask] = useState<Asked>(null);
  const close = () => ask(null);
  return (
    <>
      <div class="head">
        <h1>Secrets</h1>
        {mayWrite.value && (
          <button type="button" class="primary" onClick={() => ask({ put: null })}>
            New secret
          </button>
        )}
      </div>
      <p class="hint">
        A target names one as <code>{'{"secret": "name"}'}</code> in a header or in its auth. It is encrypted
        at rest, and nobody is shown it again.
      </p>
      <section class="card list">
        <Part of={page}>
          {(data) =>
            data.items.length ? (
              <Table label="Secrets" rows={data.items} columns={columns(ask)} id={(one) => one.name} />
            ) : (
              <Empty title="No secrets yet">
                <p>A token or a password that targets send, and that no reader of a job sees.</p>
              </Empty>
            )
          }
        </Part>
      </section>
      <div class="foot">
        <Copy curl={asCurl("GET", "/secrets")} cli={asCli("secrets", "list")} />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
      {mayWrite.value && <Signing rotate={() => ask("rotate")} />}
      {asked && typeof asked === "object" && "put" in asked && (
        <Put name={asked.put} close={close} again={page.again} />
      )}
      {asked && typeof asked === "object" && "remove" in asked && (
        <Dialog
          title={`Delete ${asked.remove}?`}
          action="Delete"
          danger
          close={close}
          act={async () => {
            await remove(`/secrets/${part(asked.remove)}`);
            say("Deleted.");
            page.again();
          }}
        >
          <p>Calls that name it are rejected from then on. Its value cannot be brought back.</p>
        </Dialog>
      )}
      {asked === "rotate" && <Rotate close={close} />}
    </>
  );
}

const columns = (ask: (asked: Asked) => void): (Column<Secret> | false)[] => [
  { name: "Name", kind: "name", show: (one) => one.name },
  { name: "Changed", show: (one) => <Time at={one.updated_at} far /> },
  mayWrite.value && {
    name: "Actions",
    kind: "number",
    show: (one) => (
      <span class="actions end">
        <button type="button" class="small" onClick={() => ask({ put: one.name })}>
          Replace…
        </button>
        <button type="button" class="small danger" onClick={() => ask({ remove: one.name })}>
          Delete…
        </button>
      </span>
    ),
  },
];

function Put({ name, close, again }: { name: string | null; close: () => void; again: () => void }) {
  const [called, call] = useState(name ?? "");
  const [value, type] = useState("");
  const act = async () => {
    await put(`/secrets/${part(called)}`, { value });
    say(name ? "Replaced: calls from now on send the new value." : "Kept. Targets can name it.");
    again();
  };
  return (
    <Dialog
      title={name ? `Replace ${name}` : "New secret"}
      action={name ? "Replace" : "Keep"}
      close={close}
      act={act}
      not={!called || !value}
    >
      {!name && (
        <label>
          Name
          <input
            value={called}
            maxLength={200}
            autocomplete="off"
            onInput={(event) => call(event.currentTarget.value)}
          />
        </label>
      )}
      <label>
        Value
        <input
          type="password"
          value={value}
          autocomplete="new-password"
          onInput={(event) => type(event.currentTarget.value)}
        />
      </label>
    </Dialog>
  );
}

/** What receivers verify signatures with. */
function Signing({ rotate }: { rotate: () => void }) {
  const found = useData<WebhookSecrets>("/webhook-secret", false);
  return (
    <section class="card">
      <div class="head">
        <h2>Signature of requests</h2>
        <button type="button" class="small" onClick={rotate}>
          Rotate…
        </button>
      </div>
      <p class="hint">
        Requests are signed (Standard Webhooks). A receiver verifies them with{" "}
        <code>
          {found.data ? `${found.data.items.length} secret${found.data.items.length === 1 ? "" : "s"}` : "…"}
        </code>
        ; see them with <code>{asCli("webhook-secret", "show")}</code>.
      </p>
    </section>
  );
}

function Rotate({ close }: { close: () => void }) {
  const [made, learn] = useState<WebhookSecrets | null>(null);
  const [overlap, change] = useState("24h");
  if (made) {
    const fresh = made.items[0];
    return (
      <Dialog title="The new secret" only="Done" close={close}>
        <p>Give it to receivers. The one before signs beside it for {overlap}.</p>
        {fresh && <Copied text={fresh.secret} name="the secret" />}
      </Dialog>
    );
  }
  return (
    <Dialog
      title="Rotate the secret of signatures"
      action="Rotate"
      close={close}
      act={async () => {
        learn(await post<WebhookSecrets>("/webhook-secret/rotate", { overlap }));
        return "stay";
      }}
    >
      <label>
        The old one signs as well for
        <input value={overlap} onInput={(event) => change(event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}
