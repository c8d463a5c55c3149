/** Ctrl-K: pages, jobs by part of their name, any id that is pasted, and what can be done from anywhere. All by keyboard. */
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { get, query } from "../api.ts";
import { useSettled } from "../hooks.ts";
import { showKeys } from "../keyboard.ts";
import { wanted } from "../live.ts";
import { visible } from "../nav.ts";
import { address, alter, visit } from "../router.ts";
import type { JobPage } from "../types.ts";
import { copy } from "./copy.tsx";
import { Mark } from "./marks.tsx";

const open = signal(false);
export const openPalette = () => {
  open.value = true;
};

interface Choice {
  key: string;
  title: string;
  detail: string;
  mark: string;
  act: () => void;
}

export function Palette() {
  return open.value ? <Opened close={() => (open.value = false)} /> : null;
}

function Opened({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, type] = useState("");
  const [at, move] = useState(0);
  const choices = useChoices(text.trim());
  useLayoutEffect(() => dialog.current?.showModal(), []); // at once: the next key is typed into it
  useEffect(() => move(0), [text]);
  const pick = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    choice.act();
  };
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) move((at + step + choices.length) % Math.max(1, choices.length));
    else if (event.key === "Enter") pick(choices[at]);
    else if (event.key === "Escape")
      close(); // at once, although a search field would be emptied first
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" onClose={close} aria-label="Find">
      <input
        type="search"
        list={undefined}
        role="combobox"
        aria-expanded="true"
        aria-controls="choices"
        aria-activedescendant={`choice-${at}`}
        placeholder="Part of a job's name, an id, a page"
        value={text}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={keys}
      />
      <div id="choices" role="listbox" aria-label="Found" tabIndex={-1}>
        {choices.map((choice, index) => (
          <div
            key={choice.key}
            id={`choice-${index}`}
            class="choice"
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onPointerEnter={() => move(index)}
            onClick={() => pick(choice)}
            onKeyDown={keys}
          >
            <Mark state={choice.mark} />
            <span>{choice.title}</span>
            <small>{choice.detail}</small>
          </div>
        ))}
        {!choices.length && <p class="none">Nothing found</p>}
      </div>
    </dialog>
  );
}

function useChoices(text: string): Choice[] {
  const jobs = useJobs(text);
  const pasted = placeOf(text);
  if (pasted) return [choice(text, text, "open", "queued", pasted)];
  const words = text.toLowerCase();
  return [
    ...pages().filter((one) => one.title.toLowerCase().includes(words)),
    ...(text.length > 1 ? jobs : []),
    ...(text.length > 1 ? actions().filter((one) => one.title.toLowerCase().includes(words)) : []),
  ];
}

/** Jobs whose name contains the text, asked for when the typing pauses. */
function useJobs(text: string): Choice[] {
  const [jobs, found] = useState<Choice[]>([]);
  const settled = useSettled(text, 120);
  useEffect(() => {
    if (settled.length < 2 || placeOf(settled)) return found([]);
    const stop = new AbortController();
    get<JobPage>(`/jobs${query({ name: settled, limit: 8 })}`, stop.signal)
      .then(({ items }) =>
        found(items.map((job) => choice(job.id, job.name ?? job.id, "job", job.state, `/jobs/${job.id}`))),
      )
      .catch(() => undefined);
    return () => stop.abort();
  }, [settled]);
  return jobs;
}

const PREFIXES: Record<string, string> = { job: "/jobs/", exec: "/executions/", op: "/operations/" };

/** Where a pasted id leads: its prefix says what it is. */
function placeOf(text: string): string | null {
  const id = /^([a-z]+)_[0-9a-z]+$/i.exec(text);
  const path = PREFIXES[id?.[1] ?? ""];
  return path ? path + text : null;
}

function pages(): Choice[] {
  return [
    ...visible().map((item) => choice(item.path, item.name, "page", "expected", item.path)),
    choice("new", "New job", "page", "expected", "/jobs/new"),
    choice("words", "Words and their meaning", "page", "expected", "/words"),
  ];
}

/** What can be done from anywhere. */
function actions(): Choice[] {
  const does = (key: string, title: string, act: () => void): Choice => ({
    key,
    title,
    detail: "does",
    mark: "running",
    act,
  });
  return [
    does("utc", "Show times in UTC", () => alter({ zone: "UTC" }, true)),
    does("local", "Show times in local time", () => alter({ zone: "local" }, true)),
    does("live", wanted.value ? "Pause live updates" : "Resume live updates", () => {
      wanted.value = !wanted.value;
    }),
    does("link", "Copy the link of this page", () => void copy(location.href)),
    does("keys", "Keyboard shortcuts", showKeys),
  ];
}

function choice(key: string, title: string, detail: string, mark: string, path: string): Choice {
  return { key, title, detail, mark, act: () => visit(address(path)) };
}
