/** Ctrl-K: pages, jobs by part of their name, and any id that is pasted. All by keyboard. */
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, query } from "../api.ts";
import { useSettled } from "../hooks.ts";
import { address, visit } from "../router.ts";
import { operator } from "../session.ts";
import type { JobPage } from "../types.ts";
import { NAV } from "./frame.tsx";
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
  href: string;
}

export function Palette() {
  return open.value ? <Opened close={() => (open.value = false)} /> : null;
}

function Opened({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, type] = useState("");
  const [at, move] = useState(0);
  const choices = useChoices(text.trim());
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => move(0), [text]);
  const pick = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    visit(choice.href);
  };
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) move((at + step + choices.length) % Math.max(1, choices.length));
    else if (event.key === "Enter") pick(choices[at]);
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
  const [jobs, found] = useState<Choice[]>([]);
  const settled = useSettled(text, 120);
  useEffect(() => {
    if (settled.length < 2 || /^(job|exec)_/.test(settled)) return found([]);
    const stop = new AbortController();
    get<JobPage>(`/jobs${query({ name: settled, limit: 8 })}`, stop.signal)
      .then((page) =>
        found(
          page.items.map((job) => choice(job.id, job.name ?? job.id, "job", job.state, `/jobs/${job.id}`)),
        ),
      )
      .catch(() => undefined);
    return () => stop.abort();
  }, [settled]);
  const id = /^(job|exec)_[0-9a-z]+$/i.exec(text);
  if (id)
    return [choice(text, text, "open", "queued", id[1] === "job" ? `/jobs/${text}` : `/executions/${text}`)];
  const pages = [
    ...NAV.filter((item) => !item.operators || operator.value),
    { path: "/jobs/new", name: "New job", group: "Work" },
  ];
  const matching = pages.filter((item) => item.name.toLowerCase().includes(text.toLowerCase()));
  return [
    ...matching.map((item) => choice(item.path, item.name, "page", "expected", item.path)),
    ...(text.length > 1 ? jobs : []),
  ];
}

function choice(key: string, title: string, detail: string, mark: string, path: string): Choice {
  return { key, title, detail, mark, href: address(path) };
}
