/** The bar above a list: what is chosen of it, all that match, and what can be done to them. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { count } from "../time.ts";
import type { Do, Of } from "../types.ts";
import { Operate } from "./operate.tsx";
import type { Chosen } from "./table.tsx";

interface Props {
  of: Of;
  chosen: Chosen;
  shown: number;
  /** The filters of the list, as an operation takes them; undefined ones are left out. A text says why it cannot take them. */
  where: Record<string, unknown> | string;
  more: boolean;
  actions: [Do, string][];
}

export function Acting({ of, chosen, shown, where, more, actions }: Props) {
  const [asked, ask] = useState<Do | null>(null);
  const none = !chosen.all && !chosen.ids.size;
  const set = Object.fromEntries(
    Object.entries(typeof where === "string" ? {} : where).filter(([, value]) => value),
  );
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
        {!chosen.all && (
          <Reasoned why={typeof where === "string" ? where : null} class="link" act={chosen.matching}>
            select all that match
          </Reasoned>
        )}
      </span>
      <span class="actions">
        {actions.map(([does, name]) => (
          <Reasoned
            key={does}
            why={none ? `Select ${things} first.` : null}
            class="small"
            act={() => ask(does)}
          >
            {name}
          </Reasoned>
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

interface ReasonedProps {
  /** Why it cannot be pressed, if so. */
  why: string | null;
  class: string;
  act: () => void;
  children: ComponentChildren;
}

/** A button that says why it does nothing. */
function Reasoned({ why, act, children, ...rest }: ReasonedProps) {
  return (
    <button type="button" {...rest} disabled={why !== null} title={why ?? undefined} onClick={act}>
      {children}
    </button>
  );
}
