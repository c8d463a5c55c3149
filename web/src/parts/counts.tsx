/** The states of a list as one row of buttons, each with how many there are: the first thing that users narrow by. */
import { useEffect, useState } from "preact/hooks";
import { get, query, tenant } from "../api.ts";
import { wanted } from "../live.ts";
import { alter, param } from "../router.ts";
import { count } from "../time.ts";
import type { Count } from "../types.ts";
import { State } from "./marks.tsx";

const EVERY_MS = 10_000;
/** Enough to tell many from few. No query of a page grows with the table. */
const CAP = 1000;

interface Props {
  /** The collection that is counted: `/jobs`, `/executions`. */
  path: string;
  states: string[];
  /** The other filters that are set. */
  asked: Record<string, string | undefined>;
  /** Names of what is no state: of the list as it comes, and of others that the address calls so. */
  others?: Record<string, string>;
}

export function States({ path, states, asked, others = { "": "all" } }: Props) {
  const chosen = param("state");
  const counts = useCounts(path, states, asked);
  return (
    <div class="switch states" role="group" aria-label="State">
      {[...Object.keys(others), ...states].map((state) => (
        <button
          key={state}
          type="button"
          aria-pressed={state === chosen}
          aria-label={others[state] ?? state}
          onClick={() => alter({ state: state || undefined })}
        >
          {others[state] ?? <State state={state} />}
          {counts[state] && <small class="count">{short(counts[state])}</small>}
        </button>
      ))}
    </div>
  );
}

const short = (found: Count) => (found.capped ? `${count(CAP)}+` : count(found.count));

/** How many of each state match the other filters; asked rarely, and never in a hidden tab. */
function useCounts(path: string, states: string[], asked: Props["asked"]): Record<string, Count> {
  const [counts, learn] = useState<Record<string, Count>>({});
  const filters = query({ ...asked, state: undefined, cursor: undefined, sort: undefined, cap: CAP });
  useEffect(() => {
    const stop = new AbortController();
    const look = async () => {
      if (document.hidden || !wanted.peek()) return;
      const found = await Promise.all(
        states.map(async (state) => [
          state,
          await get<Count>(`${path}/count${filters}&state=${state}`, stop.signal),
        ]),
      ).catch(() => null);
      if (found) learn(Object.fromEntries(found) as Record<string, Count>);
    };
    void look();
    const timer = setInterval(look, EVERY_MS);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [path, filters, tenant.value]);
  return counts;
}
