/** Filters of a list. They are in the address and nowhere else; each that is set can be taken away. */
import { useEffect, useState } from "preact/hooks";
import { useSettled } from "../hooks.ts";
import { alter, place } from "../router.ts";

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

export function Choose({ name, label, options }: { name: string; label: string; options: string[] }) {
  return (
    <select
      aria-label={label}
      value={place.value.query.get(name) ?? ""}
      onChange={(event) => alter({ [name]: event.currentTarget.value || undefined })}
    >
      <option value="">{label}: any</option>
      {options.map((option) => (
        <option key={option} value={option}>
          {option}
        </option>
      ))}
    </select>
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

/** Newer and older: places, not page numbers. */
export function Pages({ next }: { next: string | null }) {
  const cursor = place.value.query.get("cursor");
  if (!next && !cursor) return null;
  return (
    <div class="pages">
      <button type="button" disabled={!cursor} onClick={() => history.back()}>
        ◂ Newer
      </button>
      <button type="button" disabled={!next} onClick={() => alter({ cursor: next ?? undefined })}>
        Older ▸
      </button>
    </div>
  );
}
