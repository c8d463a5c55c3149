/** Named ranges in which jobs do not fire. */
import { useState } from "preact/hooks";
import { put, remove } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Dialog, say } from "../parts/dialog.tsx";
import { Mark, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { part } from "../router.ts";
import { mayWrite } from "../session.ts";
import { now, stamp } from "../time.ts";
import type { Calendar, CalendarRange, Calendars as Listed } from "../types.ts";

export function Calendars() {
  const found = useData<Listed>("/calendars", false);
  const [edited, edit] = useState<Calendar | null>(null);
  const [gone, go] = useState<Calendar | null>(null);
  const fresh = { name: "", ranges: [], updated_at: "" };
  return (
    <>
      <div class="head">
        <h1>Calendars</h1>
        {mayWrite.value && (
          <button type="button" class="primary" onClick={() => edit(fresh)}>
            New calendar
          </button>
        )}
      </div>
      <p class="hint">
        A schedule excludes one as <code>{'{"exclude": {"calendars": ["holidays"]}}'}</code>: fires inside its
        ranges are dropped, or held until the range ends.
      </p>
      <Part of={found}>
        {(data) =>
          data.items.length ? (
            <div class="columns">
              {data.items.map((one) => (
                <One key={one.name} calendar={one} edit={() => edit(one)} remove={() => go(one)} />
              ))}
            </div>
          ) : (
            <section class="card">
              <Empty title="No calendars yet">
                <p>
                  Public holidays, maintenance windows, the end of a quarter: times in which jobs stay silent.
                </p>
              </Empty>
            </section>
          )
        }
      </Part>
      <div class="foot">
        <Copy curl={asCurl("GET", "/calendars")} cli={asCli("calendars", "list")} />
      </div>
      {edited && <Edit of={edited} close={() => edit(null)} again={found.again} />}
      {gone && (
        <Dialog
          title={`Delete ${gone.name}?`}
          action="Delete"
          danger
          close={() => go(null)}
          act={async () => {
            await remove(`/calendars/${part(gone.name)}`);
            say("Deleted.");
            found.again();
          }}
        >
          <p>Only a calendar that no job names can be deleted.</p>
        </Dialog>
      )}
    </>
  );
}

function One({ calendar, edit, remove }: { calendar: Calendar; edit: () => void; remove: () => void }) {
  return (
    <section class="card">
      <div class="head">
        <h2>{calendar.name}</h2>
        {mayWrite.value && (
          <span class="actions">
            <button type="button" class="small" onClick={edit}>
              Edit…
            </button>
            <button type="button" class="small danger" onClick={remove}>
              Delete…
            </button>
          </span>
        )}
      </div>
      <ul class="ranges">
        {calendar.ranges.map((range) => (
          <li key={range.from + range.to} class={Date.parse(range.to) < now() ? "over" : ""}>
            <Mark state={isNow(range) ? "running" : "expected"} title={isNow(range) ? "now" : "a range"} />
            <span>
              {stamp(Date.parse(range.from))} – {stamp(Date.parse(range.to))}
            </span>
            <small>{range.reason}</small>
          </li>
        ))}
        {!calendar.ranges.length && <li class="none">no ranges: it excludes nothing</li>}
      </ul>
      <p class="hint">
        changed <Time at={calendar.updated_at} far />
      </p>
    </section>
  );
}

const isNow = (range: CalendarRange) => Date.parse(range.from) <= now() && now() < Date.parse(range.to);

/** A line per range: from, to, reason. Text, so that a year of holidays is pasted at once. */
function Edit({ of, close, again }: { of: Calendar; close: () => void; again: () => void }) {
  const [name, call] = useState(of.name);
  const [text, type] = useState(
    of.ranges.map((range) => [range.from, range.to, range.reason ?? ""].join(" ").trim()).join("\n"),
  );
  const act = async () => {
    await put(`/calendars/${part(name)}`, { ranges: rangesOf(text) });
    say("Saved. Fires that are planned already follow it, too.");
    again();
  };
  return (
    <Dialog title={of.name || "New calendar"} action="Save" wide close={close} act={act} not={!name}>
      {!of.name && (
        <label>
          Name
          <input value={name} maxLength={200} onInput={(event) => call(event.currentTarget.value)} />
        </label>
      )}
      <label>
        A range a line: from, to, reason. A date alone is its beginning, UTC.
        <textarea
          rows={10}
          spellcheck={false}
          placeholder={"2026-12-25 2026-12-27 Christmas\n2027-01-01T00:00:00+01:00 2027-01-02T00:00:00+01:00"}
          value={text}
          onInput={(event) => type(event.currentTarget.value)}
        />
      </label>
    </Dialog>
  );
}

const whole = (text: string) => (/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text);

function rangesOf(text: string): CalendarRange[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => {
      const [from = "", to = "", ...reason] = line.split(/\s+/);
      return { from: whole(from), to: whole(to), reason: reason.join(" ") || null };
    });
}
