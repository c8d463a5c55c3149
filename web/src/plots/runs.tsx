/** The last runs of a job: a bar each, as high as it took, coloured by how it ended; below, how late it was. */
import { address, visit } from "../router.ts";
import { duration, moment } from "../time.ts";
import type { Execution } from "../types.ts";
import { roundUp } from "./axis.ts";
import { useWidth } from "./history.tsx";

const HIGH = 64;
const LATE = 20;

const took = (run: Execution) =>
  run.started_at && run.finished_at ? Date.parse(run.finished_at) - Date.parse(run.started_at) : null;

export function RunsPlot({ runs }: { runs: Execution[] }) {
  const [box, width] = useWidth();
  const ended = runs.filter((run) => run.finished_at).toReversed();
  const most = roundUp(Math.max(1, ...ended.map((run) => took(run) ?? 0)));
  const latest = roundUp(Math.max(1, ...ended.map((run) => run.lag_ms ?? 0)));
  const step = Math.min(14, width / Math.max(1, ended.length));
  const times = ended
    .map(took)
    .filter((ms) => ms !== null)
    .sort((a, b) => a - b);
  const median = times[Math.floor(times.length / 2)];
  return (
    <figure class="plot runs">
      <figcaption>
        last {ended.length}: run time up to {duration(most)}
        {median !== undefined && `, median ${duration(median)}`}; late up to {duration(latest)} (below)
      </figcaption>
      <div ref={box}>
        {width > 0 && (
          <svg
            viewBox={`0 0 ${width} ${HIGH + LATE + 4}`}
            width={width}
            height={HIGH + LATE + 4}
            role="img"
            aria-label={`run times of the last ${ended.length} executions`}
          >
            <line class="tick" x1={0} x2={width} y1={HIGH} y2={HIGH} />
            {ended.map((run, index) => {
              const high = Math.max(3, ((took(run) ?? 0) / most) * (HIGH - 4));
              const low = Math.max(1, ((run.lag_ms ?? 0) / latest) * LATE);
              return (
                // biome-ignore lint/a11y/noStaticElementInteractions: the table below has the same links
                <g key={run.id} class="run" onClick={() => visit(address(`/executions/${run.id}`))}>
                  <title>{`${run.state} ${moment(run.fire_at)}\nran ${took(run) === null ? "–" : duration(took(run)!)}, late ${run.lag_ms === null ? "–" : duration(run.lag_ms)}`}</title>
                  <rect class="hit" x={index * step} y={0} width={step} height={HIGH + LATE} />
                  <rect
                    class={`bar s-${run.state}`}
                    x={index * step}
                    y={HIGH - high}
                    width={Math.max(1.5, step - 2)}
                    height={high}
                    rx={1}
                  />
                  <rect
                    class="bar lateness"
                    x={index * step}
                    y={HIGH + 2}
                    width={Math.max(1.5, step - 2)}
                    height={low}
                  />
                </g>
              );
            })}
          </svg>
        )}
      </div>
    </figure>
  );
}
