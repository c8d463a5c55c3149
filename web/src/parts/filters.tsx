/** Filters of a list. They are in the address and nowhere else; each that is set can be taken away. */
import { useEffect, useState } from "preact/hooks";
import { useSettled } from "../hooks.ts";
import { alter, place } from "../router.ts";
import { Empty } from "./notices.tsx";

export function Search({ name, label }: { name: string; label: string }) {
  const given = place.value.query.get(name) ?? "";
  const [text, type] = useState(given);
  const settled = useSettled(text, 250);
  useEffect(() => type(given), [given]);
  useEffect(() => {
    if (settled === text && settled !== given) alter({ [name]: settled || undefined }, true);
  }, [settled]);
  return (
    <input
      type="search"
      class="search"
      aria-label={label}
      placeholder={label}
      value={text}
      onInput={(event) => type(event.currentTarget.value)}
      data-filter={name}
    />
  );
}

interface ChooseProps {
  name: string;
  label: string;
  options: string[];
  /** What the list shows while nothing is chosen. */
  otherwise?: string;
  /** Whether the options are names that people gave: shown as they are. */
  names?: boolean;
}

export function Choose({ name, label, options, otherwise = "any", names = false }: ChooseProps) {
  const chosen = place.value.query.get(name) ?? "";
  const all = !chosen || options.includes(chosen) ? options : [chosen, ...options];
  return (
    <select
      aria-label={label}
      value={chosen}
      onChange={(event) => alter({ [name]: event.currentTarget.value || undefined })}
    >
      <option value="">
        {label}: {otherwise}
      </option>
      {all.map((option) => (
        <option key={option} value={option}>
          {names ? option : option.replaceAll("_", " ")}
        </option>
      ))}
    </select>
  );
}

/** A filter that is on or off. */
export function Toggle({ name, label }: { name: string; label: string }) {
  const on = place.value.query.get(name) === "true";
  return (
    <button
      type="button"
      class="toggle"
      aria-pressed={on}
      onClick={() => alter({ [name]: on ? undefined : "true" })}
    >
      {label}
    </button>
  );
}

/** What is set, as chips to take away. */
export function Chips({ names }: { names: string[] }) {
  const set = names.flatMap((name) => {
    const value = place.value.query.get(name);
    return value ? [[name, value] as const] : [];
  });
  if (!set.length) return null;
  return (
    <div class="chips">
      {set.map(([name, value]) => (
        <button
          key={name}
          type="button"
          class="chip"
          onClick={() => alter({ [name]: undefined })}
          title="Take this filter away"
        >
          {name}: {value} <span aria-hidden="true">✕</span>
        </button>
      ))}
      <button
        type="button"
        class="link"
        onClick={() => alter(Object.fromEntries(names.map((name) => [name, undefined])))}
      >
        clear all
      </button>
    </div>
  );
}

export const given = (names: string[]) =>
  Object.fromEntries(names.map((name) => [name, place.value.query.get(name) ?? undefined]));

/** What a list is narrowed by, in words, with a way to take it all away. For lists that are empty for that reason. */
export function NoMatch({ what, names }: { what: string; names: string[] }) {
  const set = names.filter((name) => place.value.query.get(name));
  return (
    <Empty title={`No ${what} matches`}>
      <p>
        Looked for {set.map((name) => `${name} “${place.value.query.get(name)}”`).join(", ")}.{" "}
        <button
          type="button"
          class="link"
          onClick={() => alter(Object.fromEntries(names.map((name) => [name, undefined])))}
        >
          Clear the filters
        </button>
      </p>
    </Empty>
  );
}

/** A part of a list in which nothing matches, although further parts may hold something: no query reads a whole table. */
export function LookFurther({ next }: { next: string }) {
  return (
    <Empty title="Nothing in this part">
      <p>
        The list was read for a while without a match.{" "}
        <button type="button" class="link" onClick={() => alter({ cursor: next }, false, { older: true })}>
          Look further
        </button>
      </p>
    </Empty>
  );
}

export const isNarrowed = (names: string[]) => names.some((name) => place.value.query.get(name));

/** Newer and older: places, not page numbers. A link to an older page leads to the newest one, for what is between is unknown. */
export function Pages({ next }: { next: string | null }) {
  const cursor = place.value.query.get("cursor");
  if (!next && !cursor) return null;
  const newer = () => {
    if ((history.state as { older?: boolean } | null)?.older) history.back();
    else alter({ cursor: undefined });
  };
  return (
    <div class="pages">
      <button type="button" disabled={!cursor} onClick={newer}>
        ◂ Newer
      </button>
      <button
        type="button"
        disabled={!next}
        onClick={() => alter({ cursor: next ?? undefined }, false, { older: true })}
      >
        Older ▸
      </button>
    </div>
  );
}
