/** How the database and the fleet are, and what to do where something is wrong. For operators. */
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copied, Copy } from "../parts/copy.tsx";
import { Mark } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { Table } from "../parts/table.tsx";
import { operator } from "../session.ts";
import { count, duration } from "../time.ts";
import type { System as Answer, Check, Diagnosis, FindingView, SettingView } from "../types.ts";

const LOOK_MS = 10_000;

export function System() {
  const found = useData<Answer>("/system", true, LOOK_MS);
  return (
    <>
      <h1>System</h1>
      {operator.value && <Findings />}
      <Part of={found}>
        {(data) => (
          <>
            <section class="card">
              <h2>Checks</h2>
              <ul class="lines checks">
                {data.checks
                  .toSorted((a, b) => Number(a.ok) - Number(b.ok))
                  .map((check) => (
                    <Line key={check.name} check={check} />
                  ))}
              </ul>
            </section>
            <div class="columns">
              <section class="card">
                <h2>Database</h2>
                <Facts of={data.database} />
              </section>
              <section class="card">
                <h2>Fleet</h2>
                <Facts of={fleetOf(data)} />
              </section>
            </div>
            <Tables of={data.database} />
            <Settings of={data.settings} />
          </>
        )}
      </Part>
      <Copy curl={asCurl("GET", "/system")} cli={asCli("system")} />
    </>
  );
}

/** How often it is looked for everything that can be wrong: that asks the database more than the rest. */
const DIAGNOSED_MS = 30_000;
const MARKS: Record<FindingView["severity"], string> = { wrong: "dead", late: "warn", soon: "expired" };

/** What `tocsin doctor` says: the likeliest cause first, why we think so, and the command that mends it. */
function Findings() {
  const found = useData<Diagnosis>("/system/findings", true, DIAGNOSED_MS);
  return (
    <section class="card">
      <div class="head">
        <h2>What is wrong</h2>
        <Copy curl={asCurl("GET", "/system/findings")} cli={asCli("doctor")} />
      </div>
      <Part of={found}>
        {(data) =>
          data.healthy ? (
            <p class="calm">
              <Mark state="succeeded" /> Nothing of {data.looked_for} kinds of trouble.
            </p>
          ) : (
            <ul class="findings">
              {data.findings.map((one) => (
                <li key={one.code + one.words}>
                  <Mark state={MARKS[one.severity] ?? "warn"} title={one.severity} />
                  <div class="grow">
                    <b>{one.words}</b>
                    {one.evidence.map((line) => (
                      <p key={line} class="hint break">
                        {line}
                      </p>
                    ))}
                    <p>
                      <Copied text={one.fix} name="the command" />
                    </p>
                  </div>
                </li>
              ))}
            </ul>
          )
        }
      </Part>
    </section>
  );
}

function Line({ check }: { check: Check }) {
  return (
    <li>
      <Mark state={check.ok ? "succeeded" : "warn"} title={check.ok ? "well" : "not well"} />
      <b>{check.name}</b>
      <span class="grow">
        {check.words}
        {!check.ok && check.hint && <em> {check.hint}</em>}
      </span>
    </li>
  );
}

/** Whatever is told of something, a line each; lists have a table of their own. */
function Facts({ of }: { of: object }) {
  const lines = Object.entries(of).filter(([, value]) => typeof value !== "object" || value === null);
  return (
    <dl class="facts">
      {lines.map(([name, value]) => (
        <div key={name} class="fact">
          <dt>{titleOf(name)}</dt>
          <dd>{shown(name, value)}</dd>
        </div>
      ))}
    </dl>
  );
}

/** How many processes run which version and do what. */
const fleetOf = ({ version, versions, roles }: Answer) => ({
  this_process: version,
  ...Object.fromEntries(
    Object.entries(versions).map(([name, number]) => [`version ${name}`, processes(number)]),
  ),
  ...Object.fromEntries(Object.entries(roles).map(([name, number]) => [name, processes(number)])),
});

const processes = (number: unknown) =>
  `${count(Number(number))} ${Number(number) === 1 ? "process" : "processes"}`;

/** A name without the unit that its value is shown in. */
const titleOf = (name: string) => name.replace(/_(bytes|s)$/, "").replaceAll("_", " ");

function shown(name: string, value: unknown): string {
  if (value === null || value === undefined) return name === "row_security" ? "in force" : "–";
  if (typeof value !== "number") return String(value);
  if (name.endsWith("_s")) return duration(value * 1000);
  return name.endsWith("bytes") ? bytes(value) : count(value);
}

function bytes(value: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, value > 0 ? Math.floor(Math.log(value) / Math.log(1024)) : 0);
  return `${(value / 1024 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

/** What this process was told; and, behind a click, what it does by itself. Secrets come masked. */
function Settings({ of }: { of: SettingView[] }) {
  const untouched = of.filter((one) => one.default);
  return (
    <section class="card list">
      <div class="head">
        <h2>Settings that were given</h2>
      </div>
      <SettingRows label="Settings that were given" rows={of.filter((one) => !one.default)} />
      <details class="more defaults">
        <summary>{untouched.length} settings are as they come</summary>
        <SettingRows label="Settings as they come" rows={untouched} />
      </details>
    </section>
  );
}

function SettingRows({ label, rows }: { label: string; rows: SettingView[] }) {
  return (
    <Table
      label={label}
      rows={rows}
      id={(one) => one.name}
      columns={[
        { name: "Setting", kind: "name", show: (one) => <code>{one.name}</code> },
        { name: "Value", kind: "words", show: (one) => one.value ?? "–" },
      ]}
    />
  );
}

type Row = Record<string, unknown>;

function Tables({ of }: { of: object }) {
  const lists = Object.entries(of).filter((entry): entry is [string, Row[]] => Array.isArray(entry[1]));
  return (
    <>
      {lists
        .filter(([, rows]) => rows.length)
        .map(([name, rows]) => (
          <section key={name} class="card list">
            <div class="head">
              <h2>{name === "tables" ? "Largest tables" : titleOf(name)}</h2>
            </div>
            <Table
              label={name}
              rows={rows}
              id={(row) => String(Object.values(row)[0])}
              columns={Object.keys(rows[0]!).map((column) => ({
                name: titleOf(column),
                ...(typeof rows[0]![column] === "number" ? { kind: "number" as const } : {}),
                show: (row: Row) => shown(column, row[column]),
              }))}
            />
          </section>
        ))}
    </>
  );
}
