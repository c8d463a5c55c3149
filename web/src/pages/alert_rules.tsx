/** Rules of alerts: what is watched, who is told, and how. */
import { useState } from "preact/hooks";
import {
  bodyOf,
  draftOf,
  KINDS,
  mannerOf,
  optionsOf,
  type Rule,
  type RuleDraft,
  watchedOf,
} from "../alert_rule.ts";
import { type Known, put, remove } from "../api.ts";
import { local } from "../draft.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Dialog, say } from "../parts/dialog.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { part } from "../router.ts";
import { mayWrite, operator } from "../session.ts";
import type { AlertChannelView, AlertRules } from "../types.ts";

type Asked = { edit: Partial<Rule> } | { remove: Rule } | null;

interface Props {
  of: Known<AlertRules> & { again: () => void };
  /** Null while they are not known. */
  channels: AlertChannelView[] | null;
}

export function Rules({ of, channels }: Props) {
  const [asked, ask] = useState<Asked>(null);
  const close = () => ask(null);
  return (
    <section class="card list">
      <div class="head wrap">
        <h2>Rules</h2>
        {mayWrite.value && Boolean(channels?.length) && (
          <button type="button" class="small" onClick={() => ask({ edit: {} })}>
            New rule
          </button>
        )}
      </div>
      <Part of={of}>
        {(data) =>
          data.items.length ? (
            <Table
              label="Rules"
              rows={data.items as Rule[]}
              columns={columns(ask)}
              id={(one) => one.name}
              pale={(one) => one.enabled === false}
            />
          ) : (
            <p class="calm">
              A rule says what counts as trouble: a job that does not run at its time, executions that fail
              for good, fires that start late …
              {channels && !channels.length && " First say below where it is told."}
            </p>
          )
        }
      </Part>
      {asked && "edit" in asked && (
        <Edit of={asked.edit} channels={channels ?? []} close={close} again={of.again} />
      )}
      {asked && "remove" in asked && (
        <Dialog
          title={`Delete the rule ${asked.remove.name}?`}
          action="Delete"
          danger
          close={close}
          act={async () => {
            await remove(`/alert-rules/${part(asked.remove.name)}`);
            say("Deleted.");
            of.again();
          }}
        >
          <p>What it found is forgotten, and nothing more is told by it.</p>
          <Copy
            curl={asCurl("DELETE", `/alert-rules/${part(asked.remove.name)}`)}
            cli={asCli("alerts", "rules", "delete", asked.remove.name)}
          />
        </Dialog>
      )}
    </section>
  );
}

const columns = (ask: (asked: Asked) => void): (Column<Rule> | false)[] => [
  { name: "Name", kind: "name", show: (one) => one.name },
  {
    name: "Watches whether",
    kind: "words",
    show: (one) => (
      <>
        {watchedOf(one)}
        {one.scope === "fleet" && <small> · of the whole fleet</small>}
      </>
    ),
  },
  { name: "Told to", show: (one) => one.channels.join(", ") },
  { name: "How", kind: "words", show: (one) => <How of={one} /> },
  mayWrite.value && {
    name: "Actions",
    kind: "number",
    show: (one) => (
      <span class="actions end">
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

/** How it is told; of a dead man's switch, whether it beats. */
function How({ of: rule }: { of: Rule }) {
  if (rule.enabled === false) return <State state="paused" word="off" />;
  if (rule.watch.kind !== "dead_mans_switch") return <span>{mannerOf(rule)}</span>;
  if (rule.withheld) return <span class="s-dead">does not beat: {rule.withheld}</span>;
  return (
    <span>
      beat <Time at={rule.beat_at ?? null} far />
    </span>
  );
}

interface EditProps {
  of: Partial<Rule>;
  channels: AlertChannelView[];
  close: () => void;
  again: () => void;
}

function Edit({ of, channels, close, again }: EditProps) {
  const [name, call] = useState(of.name ?? "");
  const [draft, change] = useState<RuleDraft>(() => ({
    ...draftOf(of, local),
    channels: of.channels ?? channels.slice(0, 1).map((one) => one.name),
  }));
  const set = (changes: Partial<RuleDraft>) => change({ ...draft, ...changes });
  const body = bodyOf(draft);
  const path = `/alert-rules/${part(name || "name")}`;
  return (
    <Dialog
      title={of.name ? `Change ${of.name}` : "New rule"}
      action="Save"
      wide
      close={close}
      not={!name || !draft.channels.length}
      act={async () => {
        await put(path, body);
        say("Saved. It is looked for within ten seconds.");
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
              placeholder="failed-for-good"
              onInput={(event) => call(event.currentTarget.value)}
            />
          </label>
        )}
        <label>
          Watches whether
          <select value={draft.kind} onChange={(event) => set({ kind: event.currentTarget.value })}>
            {Object.entries(KINDS)
              .filter(([kind, { ofFleet }]) => !ofFleet || operator.value || kind === draft.kind)
              .map(([kind, { words }]) => (
                <option key={kind} value={kind}>
                  {words}
                </option>
              ))}
          </select>
        </label>
      </div>
      <Settings draft={draft} set={set} />
      <Told draft={draft} set={set} channels={channels} />
      <Copy
        curl={asCurl("PUT", path, body)}
        cli={asCli("alerts", "rules", "put", name || "name", ...optionsOf(draft))}
      />
    </Dialog>
  );
}

interface FieldsProps {
  draft: RuleDraft;
  set: (changes: Partial<RuleDraft>) => void;
}

function Settings({ draft, set }: FieldsProps) {
  const settings = KINDS[draft.kind]?.settings ?? [];
  return (
    <>
      {settings.length > 0 && (
        <div class="fields">
          {settings.map(([name, label, otherwise]) => (
            <label key={name}>
              {label}
              <input
                value={draft.settings[name] ?? ""}
                placeholder={otherwise || "any"}
                onInput={(event) =>
                  set({ settings: { ...draft.settings, [name]: event.currentTarget.value } })
                }
              />
            </label>
          ))}
        </div>
      )}
      {operator.value && !KINDS[draft.kind]?.ofFleet && (
        <label class="check">
          <input type="checkbox" checked={draft.fleet} onChange={() => set({ fleet: !draft.fleet })} />
          <span>
            of all tenants <small>else of this one's jobs only</small>
          </span>
        </label>
      )}
    </>
  );
}

/** Who is told, after how long, how often again, and when not. */
function Told({ draft, set, channels }: FieldsProps & { channels: AlertChannelView[] }) {
  const turn = (name: string) =>
    set({
      channels: draft.channels.includes(name)
        ? draft.channels.filter((one) => one !== name)
        : [...draft.channels, name],
    });
  const field = (label: string, name: "lasting" | "repeat" | "begins" | "ends" | "zone", hint: string) => (
    <label>
      {label}
      <input
        value={draft[name]}
        placeholder={hint}
        onInput={(event) => set({ [name]: event.currentTarget.value })}
      />
    </label>
  );
  return (
    <>
      <fieldset class="plain">
        <legend>Told to</legend>
        {channels.map((one) => (
          <label key={one.name} class="check">
            <input
              type="checkbox"
              checked={draft.channels.includes(one.name)}
              onChange={() => turn(one.name)}
            />
            <span>
              {one.name} <small>{one.kind}</small>
            </span>
          </label>
        ))}
      </fieldset>
      {draft.kind !== "dead_mans_switch" && (
        <div class="fields">
          {field("once it lasted", "lasting", "0s")}
          {field("again every; 0 is never", "repeat", "4h")}
          {field("quiet from", "begins", "22:00")}
          {field("to", "ends", "07:00")}
          {field("in the zone", "zone", "UTC")}
        </div>
      )}
      <label class="check">
        <input type="checkbox" checked={draft.enabled} onChange={() => set({ enabled: !draft.enabled })} />
        <span>on</span>
      </label>
    </>
  );
}
