/** One field for all filters of a list: `state:dead queue:mail invoice`, with completion. The address holds the result. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useData, useSettled } from "../hooks.ts";
import { completions, parsed, written } from "../qualified.ts";
import { alter, place } from "../router.ts";
import type { QueueList } from "../types.ts";

interface Props {
  label: string;
  /** What the empty field shows. */
  hint: string;
  /** The filter that words without a name belong to. */
  words: string;
  /** The filters that can be named, each with the values it is known to have. */
  values: Record<string, string[]>;
}

export function Qualified({ label, hint, words, values }: Props) {
  const names = Object.keys(values);
  const given = (name: string) => place.value.query.get(name) ?? undefined;
  const address = written(Object.fromEntries(names.map((name) => [name, given(name)])), given(words) ?? "");
  const [text, type] = useState(address);
  const [open, show] = useState(false);
  const [at, move] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  const settled = useSettled(text, 300);
  const choices = open ? completions(text, values) : [];
  useEffect(() => {
    if (document.activeElement !== input.current) type(address);
  }, [address]);
  const said = useRef(parsed(address, names));
  useEffect(() => {
    if (document.activeElement !== input.current) said.current = parsed(address, names);
  }, [address]);
  /** Change what the text changed, and only that: another control may have been used meanwhile. */
  const search = (searched: string) => {
    const before = said.current;
    const found = parsed(searched, names);
    if (written(found.filters, found.words) === written(before.filters, before.words)) return;
    said.current = found;
    const gone = Object.fromEntries(Object.keys(before.filters).map((name) => [name, undefined]));
    alter({ ...gone, ...found.filters, [words]: found.words || undefined }, true);
  };
  useEffect(() => {
    if (settled === text && !settled.endsWith(":")) search(settled);
  }, [settled]);
  const pick = (choice: string) => {
    type(choice);
    move(-1);
    if (choice.endsWith(" ")) search(choice);
    input.current?.focus();
  };
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && choices.length) move((at + step + choices.length) % choices.length);
    else if (event.key === "Tab" && choices.length && at >= 0) pick(choices[at]!);
    else if (event.key === "Enter" && choices[at]) pick(choices[at]!);
    else if (event.key === "Enter") search(text);
    else if (event.key === "Escape" && open) show(false);
    else return;
    event.preventDefault();
  };
  return (
    <div class="qualified">
      <input
        ref={input}
        type="search"
        class="search"
        list={undefined}
        role="combobox"
        aria-label={label}
        aria-expanded={choices.length > 0}
        aria-controls="completions"
        aria-activedescendant={at >= 0 ? `completion-${at}` : undefined}
        placeholder={hint}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          type(event.currentTarget.value);
          show(true);
          move(-1);
        }}
        onFocus={() => show(true)}
        onBlur={() => {
          show(false);
          search(text);
        }}
        onKeyDown={keys}
        data-filter={words}
      />
      <div id="completions" role="listbox" aria-label="Completions" hidden={!choices.length}>
        {choices.map((choice, index) => (
          <div
            key={choice}
            id={`completion-${index}`}
            class="choice"
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onPointerDown={(event) => {
              event.preventDefault(); // the field keeps the focus
              pick(choice);
            }}
          >
            {choice
              .trim()
              .split(/\s+(?=\S*$)/)
              .pop()}
          </div>
        ))}
      </div>
    </div>
  );
}

/** The names of the tenant's queues, for completion. */
export function useQueues(): string[] {
  const found = useData<QueueList>("/queues", false);
  return found.data?.items.map((queue) => queue.name) ?? [];
}
