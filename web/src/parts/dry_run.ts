/** What an action would do, by the API's own dry run: asked before it is done, and anew when its form settles. */
import { useEffect, useState } from "preact/hooks";
import { ask, Refused } from "../api.ts";
import { useSettled } from "../hooks.ts";

const SETTLED_MS = 200;

export interface DryRun<T> {
  dry: T | null;
  /** Why there is none. It stands where the consequence would. */
  error: Refused | null;
}

export function useDryRun<T>(path: string, body: Record<string, unknown> = {}): DryRun<T> {
  const settled = useSettled(JSON.stringify(body), SETTLED_MS);
  const [state, set] = useState<DryRun<T>>({ dry: null, error: null });
  useEffect(() => {
    const stop = new AbortController();
    ask<T>("POST", path, { body: { ...JSON.parse(settled), dry_run: true }, signal: stop.signal })
      .then((dry) => set({ dry, error: null }))
      .catch((caught) => caught instanceof Refused && set({ dry: null, error: caught }));
    return () => stop.abort();
  }, [path, settled]);
  return state;
}
