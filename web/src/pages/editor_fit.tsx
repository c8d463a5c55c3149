/** What else fires when this schedule does, and a way around a crowd. */
import { useEffect, useState } from "preact/hooks";
import { ask } from "../api.ts";
import { type Draft, moved, scheduleOf } from "../draft.ts";
import { useSettled } from "../hooks.ts";
import { count, minute, moment } from "../time.ts";
import type { Fit } from "../types.ts";

const SETTLED_MS = 400;
const SPREAD = "10m";

export function FitCard({ draft, set }: { draft: Draft; set: (changes: Partial<Draft>) => void }) {
  const fit = useFit(draft);
  if (!fit?.at || !fit.joins) return null;
  const free = fit.free_slots[0];
  const cron = free ? moved(draft, Date.parse(free)) : null;
  return (
    <div class={fit.joins_peak ? "fit warning" : "fit hint"}>
      <p>
        {fit.joins_peak
          ? `At ${moment(fit.at)} it joins a peak of ${count(fit.joins)} fires.`
          : `At ${moment(fit.at)}, ${count(fit.joins)} other fires are expected in the same minute.`}
        {free && ` ${minute(Date.parse(free))} is free.`}
      </p>
      {fit.joins_peak && (
        <p class="actions">
          {cron && free && (
            <button type="button" class="small" onClick={() => set({ cron })}>
              Use {minute(Date.parse(free))}
            </button>
          )}
          {!draft.jitter && (
            <button type="button" class="small" onClick={() => set({ jitter: SPREAD })}>
              Spread it within 10 minutes
            </button>
          )}
        </p>
      )}
    </div>
  );
}

function useFit(draft: Draft): Fit | null {
  const recurring = draft.when === "cron" || draft.when === "every" || draft.when === "several";
  const schedule = useSettled(recurring ? JSON.stringify(scheduleOf(draft)) : "", SETTLED_MS);
  const [fit, learn] = useState<Fit | null>(null);
  useEffect(() => {
    if (!schedule) return learn(null);
    const stop = new AbortController();
    ask<Fit>("POST", "/forecast:fit", { body: { schedule: JSON.parse(schedule) }, signal: stop.signal })
      .then(learn)
      .catch(() => learn(null)); // what is wrong with a schedule stands under its field
    return () => stop.abort();
  }, [schedule]);
  return fit;
}
