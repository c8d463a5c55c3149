/** The load to come under the lanes, on their axis: expected fires of all jobs, or of a queue, in steps. */
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { address } from "../router.ts";
import { count, minute, now } from "../time.ts";
import type { Forecast } from "../types.ts";
import { type Axis, x } from "./axis.ts";

const HIGH = 32;
const MINUTE = 60_000;
const LONGEST = 7 * 24 * 60 * MINUTE;
const MOST_STEPS = 120;
const LOOK_MS = 30_000;

/** The part of the axis that is ahead, in whole steps; null if there is none. */
function rangeOf({ from, to }: Axis) {
  const step = Math.max(1, Math.ceil((to - from) / MOST_STEPS / MINUTE)) * MINUTE;
  const begin = Math.floor(Math.max(from, now()) / step) * step;
  const end = Math.min(Math.ceil(to / step) * step, begin + LONGEST);
  if (end <= begin || begin - now() > LONGEST) return null;
  return { from: new Date(begin).toISOString(), to: new Date(end).toISOString(), step: `${step / MINUTE}m` };
}

export function LoadStrip({ axis, queue }: { axis: Axis; queue: string | undefined }) {
  const range = rangeOf(axis);
  const found = useData<Forecast>(range && `/forecast${query({ ...range, queue })}`, true, LOOK_MS);
  if (!range || !found.data) return null;
  const { at, expected, one_offs, step_s, capacity } = found.data;
  const fires = at.map((_, place) => (expected[place] ?? 0) + (one_offs[place] ?? 0));
  const most = Math.max(...fires);
  if (!most) return null;
  const minutes = step_s / 60;
  const peak = Date.parse(at[fires.indexOf(most)]!);
  const words = `${count(Math.round(most))} ${minutes === 1 ? "a minute" : `in ${minutes} minutes`}, at ${minute(peak)}`;
  let path = "";
  for (const [place, number] of fires.entries()) {
    const begin = Math.max(Date.parse(at[place]!), now());
    const [left, right] = [x(axis, begin), x(axis, Date.parse(at[place]!) + step_s * 1000)];
    if (!number || right <= 0 || left >= axis.width) continue;
    const [wide, high] = [Math.max(0.5, right - left - 0.6), Math.max(2, (number / most) * HIGH)];
    path += `M${left.toFixed(1)} ${HIGH}v${(-high).toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}z`;
  }
  return (
    <div class="load-strip">
      <p class="lane-names">
        <a href={address("/fires", { view: "load" })}>load to come</a>
      </p>
      <figure class="plot">
        <svg
          viewBox={`0 0 ${axis.width} ${HIGH}`}
          width={axis.width}
          height={HIGH}
          role="img"
          aria-label={words}
        >
          <path class="band s-expected" d={path} />
        </svg>
        <figcaption>
          <small>
            at most {words}
            {capacity !== null && ` · the fleet makes ${count(capacity)} calls at once`}
          </small>
        </figcaption>
      </figure>
    </div>
  );
}
