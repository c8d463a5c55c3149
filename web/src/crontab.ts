/**
 * A line of a crontab as the editor's form takes it. Pure. Calls by curl and wget become calls of their URL, any other command a
 * task of that name. Whole files, variables and credentials are for `tocsin import crontab`, which says so.
 */
import type { Draft } from "./draft.ts";

export interface Entry {
  draft: Partial<Draft>;
  /** What the form did not take over, and what has to be there. */
  notes: string[];
}

const SHORTHANDS = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const FIELD = String.raw`[\w*,/#?-]+`;
const ENTRY = new RegExp(String.raw`^-?(@\w+|[\d*]\S*(?:\s+${FIELD}){4})\s+(\S.*)$`);
const ZONE = /^\s*CRON_TZ\s*=\s*["']?([\w/+-]+)/m;
/** Options of curl and wget that say how a shell sees the call, not what is called. */
const OF_A_SHELL = /^(-[sSfLkqi]+|--silent|--show-error|--fail|--location|--quiet|--spider)$/;
/** Those that take the next word with them and mean nothing here. */
const WITH_A_WORD = ["-o", "-O", "--output", "-m", "--max-time", "--retry"];

/** The first entry of what was pasted, with the zone that stands above it. Null where there is none. */
export function entryOf(text: string): Entry | null {
  const zone = ZONE.exec(text)?.[1];
  for (const line of text.split("\n").map((one) => one.trim())) {
    const [, cron, command] = (!line.startsWith("#") && ENTRY.exec(line)) || [];
    if (!cron || !command || (cron.startsWith("@") && !SHORTHANDS.includes(cron.toLowerCase()))) continue;
    const { draft, notes } = workOf(command);
    const when = { when: "cron" as const, cron: cron.replaceAll(/\s+/g, " ").toLowerCase() };
    return { draft: { ...when, ...(zone ? { zone } : {}), ...draft }, notes };
  }
  return null;
}

function workOf(command: string): Entry {
  const words = wordsOf(command.replaceAll(/\s*(?:[12&]?>+)\s*(?:&\d|\S+)/g, ""));
  const called = words.find((word) => /^https?:\/\//.test(word));
  const program = words[0]?.split("/").pop() ?? "";
  if (!called || !["curl", "wget"].includes(program)) return taskOf(command, program);
  const draft: Partial<Draft> = { kind: "http", url: called, method: "GET", name: nameOf(called) };
  const left: string[] = [];
  for (let place = 1; place < words.length; place++) {
    const word = words[place]!;
    const next = words[place + 1] ?? "";
    if (word === called || OF_A_SHELL.test(word)) continue;
    if (["-X", "--request"].includes(word)) draft.method = next.toUpperCase();
    else if (["-H", "--header"].includes(word))
      draft.headers = [draft.headers, next].filter(Boolean).join("\n");
    else if (["-d", "--data", "--data-raw", "--json", "--post-data"].includes(word)) {
      draft.body = next;
      if (draft.method === "GET") draft.method = "POST";
    } else if (!WITH_A_WORD.includes(word)) {
      if (word.startsWith("-")) left.push(word);
      continue;
    }
    place += 1;
  }
  const notes = left.length ? [`not taken over: ${left.join(" ")}`] : [];
  return { draft, notes };
}

function taskOf(command: string, program: string): Entry {
  const task = program.replace(/\.\w+$/, "").replaceAll(/[^\w-]/g, "") || "command";
  return {
    draft: { kind: "task", task, name: task, payload: JSON.stringify({ command }) },
    notes: [`It runs a command, not a call: a worker of yours has to know the task “${task}”.`],
  };
}

/** The last telling part of a URL. */
const nameOf = (url: string) =>
  url
    .replace(/[?#].*/, "")
    .split("/")
    .slice(2)
    .filter(Boolean)
    .pop()
    ?.replaceAll(/[^\w.-]/g, "-") ?? "";

/** Words as a shell splits them, without its variables. */
function wordsOf(command: string): string[] {
  const found = command.matchAll(/(?:[^\s"']+|"(?:\\.|[^"\\])*"|'[^']*')+/g);
  return [...found].map(([word]) =>
    word.replaceAll(/"((?:\\.|[^"\\])*)"|'([^']*)'/g, (_, double?: string, single?: string) =>
      double === undefined ? (single ?? "") : double.replaceAll(/\\(.)/g, "$1"),
    ),
  );
}
