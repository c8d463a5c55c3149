/** What is wrong by the rules of the tenant, what counts as trouble, and who is told. */

import { placeOf, type Rule } from "../alert_rule.ts";
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Choose, isNarrowed, NoMatch } from "../parts/filters.tsx";
import { Mark, State, Time } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { address, param } from "../router.ts";
import type { AlertChannels, AlertRules, AlertView, Alerts as Listed } from "../types.ts";
import { Channels } from "./alert_channels.tsx";
import { Rules } from "./alert_rules.tsx";

const STATES = ["firing", "pending", "resolved"];
/** Rules tell when a dead man's switch beat last: once a minute, if all is well. */
const BEATS_MS = 15_000;
const MARKS: Record<string, string> = { firing: "dead", pending: "queued", resolved: "succeeded" };

export function Alerts() {
  const asked = query({ state: param("state"), limit: 200 });
  const found = useData<Listed>(`/alerts${asked}`);
  const rules = useData<AlertRules>("/alert-rules", true, BEATS_MS);
  const channels = useData<AlertChannels>("/alert-channels", false);
  const items = (rules.data?.items ?? []) as Rule[];
  const kindOf = (name: string) => items.find((one) => one.name === name)?.watch.kind ?? "";
  return (
    <>
      <div class="head wrap">
        <h1>Alerts</h1>
        <Choose name="state" label="state" options={STATES} />
      </div>
      <section class="card list">
        <Part of={found}>
          {(data) =>
            data.items.length ? (
              <Table
                label="Alerts"
                rows={data.items}
                columns={columns(kindOf)}
                id={(one) => `${one.rule}/${one.group}`}
                pale={(one) => one.state === "resolved"}
              />
            ) : isNarrowed(["state"]) ? (
              <NoMatch what="alert" names={["state"]} />
            ) : (
              <p class="calm">
                {rules.data && !items.length ? (
                  "No rule says yet what counts as trouble."
                ) : (
                  <>
                    <Mark state="succeeded" /> Nothing is wrong, and nothing was within the last week.
                  </>
                )}
              </p>
            )
          }
        </Part>
      </section>
      <Rules of={rules} channels={channels.data?.items ?? null} />
      <Channels of={channels} />
      <div class="foot">
        <Copy curl={asCurl("GET", `/alerts${asked}`)} cli={asCli("alerts", "list")} />
      </div>
    </>
  );
}

const columns = (kindOf: (rule: string) => string): Column<AlertView>[] => [
  { name: "State", show: (one) => <State state={MARKS[one.state] ?? "warn"} word={one.state} /> },
  { name: "Rule", kind: "name", show: (one) => one.rule },
  { name: "What", kind: "words", show: (one) => <What of={one} kind={kindOf(one.rule)} /> },
  { name: "Since", show: (one) => <Time at={one.since} far /> },
  { name: "Over", show: (one) => <Time at={one.resolved_at} far /> },
  { name: "Told", show: (one) => <Told of={one} /> },
];

function What({ of: alert, kind }: { of: AlertView; kind: string }) {
  const place = placeOf(alert, kind);
  return place ? <a href={address(...place)}>{alert.summary}</a> : <span>{alert.summary}</span>;
}

function Told({ of: alert }: { of: AlertView }) {
  if (!alert.told_at) return <span class="none">not yet</span>;
  return (
    <span class="nowrap">
      {alert.told} <Time at={alert.told_at} far />
    </span>
  );
}
