/** An alert rule as a form holds it, how it becomes one and back, and where what it found is seen. Pure. */
import type { AlertRuleView, AlertView } from "./types.ts";

/** A setting of what is watched: its label and the API's default. */
export type Setting = [name: string, label: string, otherwise: string];

interface Kind {
  words: string;
  settings: Setting[];
  /** Whether only a rule of the fleet can watch for it. */
  ofFleet?: boolean;
}

const WINDOW = (otherwise: string): Setting => ["window", "looking back", otherwise];
const QUEUE: Setting = ["queue", "only in the queue", ""];

/** What can be watched. The API may know more of it than this page. */
export const KINDS: Record<string, Kind> = {
  dead_letters: {
    words: "executions fail for good",
    settings: [["at_least", "at least", "1"], WINDOW("1h"), QUEUE],
  },
  failures_in_a_row: {
    words: "a job fails several times in a row",
    settings: [["number", "how many times", "3"], WINDOW("1d")],
  },
  did_not_run: {
    words: "a job does not run at its time",
    settings: [["grace", "not started after", "2m"], WINDOW("10m")],
  },
  lag: {
    words: "fires start late",
    settings: [
      ["within", "on time is within", "5s"],
      ["share", "share that has to be", "0.99"],
      ["at_least", "of at least so many", "10"],
      WINDOW("10m"),
      QUEUE,
    ],
  },
  unserved: { words: "no worker serves what waits", settings: [["waiting", "waiting for", "1m"]] },
  queue_paused: {
    words: "a queue is paused for long",
    settings: [["longer_than", "longer than", "1h"], QUEUE],
  },
  host_at_rest: {
    words: "executions wait for a host that fails",
    settings: [["longer_than", "longer than", "10m"]],
  },
  pending_jobs: {
    words: "the limit of jobs is near",
    settings: [["share", "share that is used up", "0.9"]],
  },
  clock: { words: "the database's clock is set", settings: [WINDOW("15m")], ofFleet: true },
  partitions: { words: "a table has no room for tomorrow", settings: [], ofFleet: true },
  disk: {
    words: "a disk is nearly full",
    settings: [["free", "less free than", "0.1"]],
    ofFleet: true,
  },
  archive_failing: {
    words: "old days cannot be archived",
    settings: [["at_least", "failures in a row", "3"]],
    ofFleet: true,
  },
  lease_churn: {
    words: "shards change hands too often",
    settings: [["times", "times each", "3"], WINDOW("10m")],
    ofFleet: true,
  },
  dead_mans_switch: {
    words: "all is well: a call every minute",
    settings: [["grace", "not while fires are late by", "2m"]],
  },
};

export const wordsOf = (kind: string) => KINDS[kind]?.words ?? kind.replaceAll("_", " ");

export interface RuleDraft {
  kind: string;
  /** Settings by name, as they are typed; empty is the default. */
  settings: Record<string, string>;
  channels: string[];
  fleet: boolean;
  lasting: string;
  repeat: string;
  begins: string;
  ends: string;
  zone: string;
  enabled: boolean;
}

/** A rule as the API tells it: what is as it comes is left out. */
export type Rule = Pick<AlertRuleView, "name" | "channels"> &
  Partial<AlertRuleView> & { watch: { kind: string } };

const REPEAT = "4h";
const text = (value: unknown) => (value === null || value === undefined ? "" : String(value));
/** A length of time as a form shows it: the API writes some as seconds. */
const span = (value: unknown) => (typeof value === "number" ? `${value}s` : text(value));

export function draftOf(rule: Partial<Rule>, zone: string): RuleDraft {
  const { kind = "dead_letters", ...settings } = (rule.watch ?? {}) as { kind?: string } & Record<
    string,
    unknown
  >;
  return {
    kind,
    settings: Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, text(value)])),
    channels: rule.channels ?? [],
    fleet: rule.scope === "fleet",
    lasting: span(rule.lasting),
    repeat: span(rule.repeat ?? REPEAT),
    begins: rule.quiet?.begins ?? "",
    ends: rule.quiet?.ends ?? "",
    zone: rule.quiet?.time_zone ?? (rule.quiet ? "UTC" : zone),
    enabled: rule.enabled !== false,
  };
}

/** A number where it is one, else the text. */
const typedAs = (typed: string) =>
  typed.trim() !== "" && Number.isFinite(Number(typed)) ? Number(typed) : typed;

function settingsOf({ kind, settings }: RuleDraft): [string, string | number][] {
  const known = KINDS[kind]?.settings.map(([name]) => name) ?? Object.keys(settings);
  return known
    .filter((name) => settings[name]?.trim())
    .map((name) => [name, name === "queue" ? settings[name]!.trim() : typedAs(settings[name]!.trim())]);
}

const scopeOf = (draft: RuleDraft) => (draft.fleet || KINDS[draft.kind]?.ofFleet ? "fleet" : "tenant");

export function bodyOf(draft: RuleDraft): Record<string, unknown> {
  const { kind, channels, lasting, repeat, begins, ends, zone, enabled } = draft;
  return {
    watch: { kind, ...Object.fromEntries(settingsOf(draft)) },
    channels,
    ...(scopeOf(draft) === "fleet" ? { scope: "fleet" } : {}),
    ...(lasting.trim() ? { lasting: typedAs(lasting) } : {}),
    ...(repeat.trim() ? { repeat: typedAs(repeat) } : {}),
    ...(begins && ends
      ? { quiet: { begins, ends, ...(zone && zone !== "UTC" ? { time_zone: zone } : {}) } }
      : {}),
    ...(enabled ? {} : { enabled: false }),
  };
}

/** The same, as options of `tocsin alerts rules put`. */
export function optionsOf(draft: RuleDraft): string[] {
  const { kind, channels, lasting, repeat, begins, ends, zone, enabled } = draft;
  return [
    "--watch",
    kind,
    ...settingsOf(draft).flatMap(([name, value]) => ["--with", `${name}=${value}`]),
    ...channels.flatMap((name) => ["--channel", name]),
    ...(scopeOf(draft) === "fleet" ? ["--fleet"] : []),
    ...(lasting.trim() ? ["--lasting", lasting.trim()] : []),
    ...(repeat.trim() ? ["--repeat", repeat.trim()] : []),
    ...(begins && ends ? ["--quiet", `${begins}-${ends}${zone && zone !== "UTC" ? `@${zone}` : ""}`] : []),
    ...(enabled ? [] : ["--disabled"]),
  ];
}

/** What a rule watches, with the settings that are not as they come. */
export function watchedOf(rule: Rule): string {
  const draft = draftOf(rule, "UTC");
  const labels = new Map(KINDS[draft.kind]?.settings.map(([name, label]) => [name, label]));
  const said = settingsOf(draft).map(([name, value]) => `${labels.get(name) ?? name} ${value}`);
  return [wordsOf(draft.kind), ...said].join(", ");
}

/** How it is told: how long it must last, how often it is told again, when nothing is told. */
export function mannerOf(rule: Rule): string {
  const { lasting, repeat, begins, ends, zone } = draftOf(rule, "UTC");
  return [
    Number.parseFloat(lasting) ? `after ${lasting}` : "",
    Number.parseFloat(repeat) ? `again every ${repeat}` : "once",
    begins ? `quiet ${begins}–${ends} ${zone}` : "",
  ]
    .filter(Boolean)
    .join(", ");
}

/** Where one looks at what was found: the job, the kind of error, the queue, else the fleet. */
export function placeOf(
  alert: AlertView,
  kind: string,
): [path: string, query: Record<string, string>] | null {
  const detail = alert.detail as { job?: string; queue?: string; tenant?: string; table?: string };
  const whose: Record<string, string> = detail.tenant ? { tenant: detail.tenant } : {};
  if (kind === "dead_letters") {
    const fingerprint = alert.group.slice(alert.group.lastIndexOf("/") + 1);
    return ["/dead-letters", fingerprint === "unknown" ? whose : { ...whose, fingerprint }];
  }
  if (detail.job) return [`/jobs/${detail.job}`, whose];
  if (detail.queue) return [`/queues/${encodeURIComponent(detail.queue)}`, whose];
  if (kind === "pending_jobs") return ["/jobs", whose];
  if (kind === "host_at_rest") return ["/executions", { ...whose, state: "queued" }];
  return detail.table || kind === "clock" ? ["/system", {}] : kind === "lease_churn" ? ["/fleet", {}] : null;
}
