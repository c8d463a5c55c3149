/** The bar above a list: what is chosen of it, all that match, and what can be done to them. */
import { useState } from "preact/hooks";
import { count } from "../time.ts";
import type { Do, Of } from "../types.ts";
import { Operate } from "./operate.tsx";
import type { Chosen } from "./table.tsx";

interface Props {
  of: Of;
  chosen: Chosen;
  shown: number;
  /** The filters of the list, as an operation takes them; undefined ones are left out. Null: it cannot take them. */
  where: Record<string, unknown> | null;
  more: boolean;
  actions: [Do, string][];
}

export function Acting({ of, chosen, shown, where, more, actions }: Props) {
  const [asked, ask] = useState<Do | null>(null);
  const none = !chosen.all && !chosen.ids.size;
  const set = Object.fromEntries(Object.entries(where ?? {}).filter(([, value]) => value));
  const filters = Object.entries(set).map(([name, value]) => `${name}=${String(value)}`);
  const things = of.replace("_", " ");
  const words = chosen.all
    ? `all ${things}${filters.length ? ` with ${filters.join(" ")}` : ""}`
    : `${count(chosen.ids.size)} ${things}`;
  return (
    <div class="bulk">
      <span>
        {chosen.all ? (
          <b>all that match</b>
        ) : chosen.ids.size ? (
          <b>{count(chosen.ids.size)} selected</b>
        ) : (
          <span class="none">
            {count(shown)} shown{more && ", there are more"}
          </span>
        )}{" "}
        {chosen.all || chosen.ids.size ? (
          <button type="button" class="link" onClick={() => chosen.set([])}>
            select none
          </button>
        ) : null}{" "}
        {!chosen.all && where && (
          <button type="button" class="link" onClick={chosen.matching}>
            select all that match
          </button>
        )}
      </span>
      <span class="actions">
        {actions.map(([does, name]) => (
          <button key={does} type="button" class="small" disabled={none} onClick={() => ask(does)}>
            {name}
          </button>
        ))}
      </span>
      {asked && (
        <Operate
          does={asked}
          of={of}
          target={chosen.all ? { where: set } : { ids: [...chosen.ids] }}
          words={words}
          close={() => ask(null)}
        />
      )}
    </div>
  );
}
