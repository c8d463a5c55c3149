/** A list: a real table that becomes cards on a phone. Its rows do not move under the pointer, and can be chosen. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useStill } from "../hooks.ts";
import { asked } from "../router.ts";

export interface Column<T> {
  name: string;
  show: (row: T) => ComponentChildren;
  kind?: "number" | "name" | "words";
}

/** What is chosen of a list: single rows, or everything that its filters match. */
export interface Chosen {
  ids: ReadonlySet<string>;
  all: boolean;
  set: (ids: Iterable<string>) => void;
  matching: () => void;
}

const NONE: ReadonlySet<string> = new Set();

/** What is chosen holds for the filters it was chosen under: no action touches rows that another filter hides. */
export function useChosen(): Chosen {
  const under = asked("cursor");
  const [chosen, choose] = useState({ ids: NONE, all: false, under });
  const { ids, all } = chosen.under === under ? chosen : { ids: NONE, all: false };
  return {
    ids,
    all,
    set: (picked) => choose({ ids: new Set(picked), all: false, under }),
    matching: () => choose({ ids: NONE, all: true, under }),
  };
}

interface Props<T> {
  label: string;
  rows: T[];
  columns: (Column<T> | false)[];
  id: (row: T) => string;
  href?: (row: T) => string;
  chosen?: Chosen | undefined;
  /** A row that is over or gone, shown paler. */
  pale?: (row: T) => boolean;
}

export function Table<T>({ label, rows, columns, id, href, chosen, pale }: Props<T>) {
  const still = useStill(rows.map((row) => ({ id: id(row), row })));
  const shown = columns.filter((column) => column !== false);
  return (
    <div class="still" {...still.hold}>
      {still.waiting > 0 && (
        <button type="button" class="waiting" onClick={still.let}>
          {still.waiting} new
        </button>
      )}
      <table aria-label={label}>
        <thead>
          <tr>
            {chosen && (
              <th class="pick">
                <All chosen={chosen} ids={still.shown.map((one) => one.id)} />
              </th>
            )}
            {shown.map(({ name, kind }) => (
              <th key={name} class={kind}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {still.shown.map(({ id: key, row }) => (
            <tr
              key={key}
              class={pale?.(row) ? "gone" : undefined}
              tabIndex={href ? 0 : undefined}
              data-href={href?.(row)}
              data-id={key}
              aria-selected={chosen ? chosen.all || chosen.ids.has(key) : undefined}
            >
              {chosen && (
                <td class="pick">
                  <One chosen={chosen} id={key} ids={still.shown.map((one) => one.id)} />
                </td>
              )}
              {shown.map(({ name, kind, show }) => (
                <td key={name} class={kind} data-name={name}>
                  {show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** With Shift, a row takes along those between it and the one that was chosen before. */
function One({ chosen, id, ids }: { chosen: Chosen; id: string; ids: string[] }) {
  const turn = (event: { shiftKey: boolean }) => {
    const on = !chosen.ids.has(id);
    const last = event.shiftKey ? [...chosen.ids].findLast((one) => ids.includes(one)) : undefined;
    const [from, to] = [ids.indexOf(last ?? id), ids.indexOf(id)].sort((a, b) => a - b) as [number, number];
    const next = new Set(chosen.ids);
    for (const one of ids.slice(from, to + 1)) {
      if (on) next.add(one);
      else next.delete(one);
    }
    chosen.set(next);
  };
  return (
    <input
      type="checkbox"
      aria-label="select"
      tabIndex={-1}
      checked={chosen.all || chosen.ids.has(id)}
      onClick={turn}
    />
  );
}

function All({ chosen, ids }: { chosen: Chosen; ids: string[] }) {
  const every = chosen.all || (ids.length > 0 && ids.every((id) => chosen.ids.has(id)));
  return (
    <input
      type="checkbox"
      aria-label="select those shown"
      checked={every}
      onChange={() => chosen.set(every ? [] : ids)}
    />
  );
}
