/** How late executions started, over time: a row per bound, the darker, the more. A percentile would hide what is rare. */
import { count, duration, minute, now, tick, zoneName } from "../time.ts";
import type { LagMap } from "../types.ts";
import { type Axis, ticks, x } from "./axis.ts";
import { useWidth } from "./history.tsx";

const ROW = 14;
const LEFT = 74;
const SHADES = 5;

export function LatePlot({ map, spanMs }: { map: LagMap; spanMs: number }) {
  const [box, width] = useWidth();
  tick.value;
  const rows = rowsOf(map);
  const height = rows * ROW + 18;
  const axis: Axis = { from: now() - spanMs, to: now(), width: Math.max(0, width - LEFT) };
  const words = summaryOf(map);
  return (
    <figure class="plot heat-rows">
      <figcaption class="hint">{words}</figcaption>
      <div ref={box}>
        {width > LEFT && (
          <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={words}>
            {Array.from({ length: rows }, (_, row) => (
              <text key={row} class="label" x={0} y={(rows - row) * ROW - 3}>
                {boundOf(map, row)}
              </text>
            ))}
            <g transform={`translate(${LEFT} 0)`}>
              {cells(map, rows, axis).map((path, shade) => (
                <path key={shade} class={`cell shade-${shade}`} d={path} />
              ))}
              {ticks(axis, zoneName(), 92).map((instant) => (
                <text key={instant} class="label middle" x={x(axis, instant)} y={height - 4}>
                  {minute(instant)}
                </text>
              ))}
            </g>
          </svg>
        )}
      </div>
    </figure>
  );
}

/** Up to the latest bound that anything reached, and a few rows at least. */
function rowsOf(map: LagMap): number {
  const reached = map.counts.map((one) => one.findLastIndex((number) => number > 0));
  return Math.min(map.bounds_ms.length + 1, Math.max(4, ...reached.map((row) => row + 1)));
}

const boundOf = ({ bounds_ms }: LagMap, row: number) =>
  row < bounds_ms.length ? `≤ ${duration(bounds_ms[row]!)}` : `> ${duration(bounds_ms.at(-1) ?? 0)}`;

/** One path per shade, on a scale of powers: one late start among thousands is seen. */
function cells(map: LagMap, rows: number, axis: Axis): string[] {
  const paths = Array.from({ length: SHADES }, () => "");
  const most = Math.max(1, ...map.counts.flat());
  const wide = Math.max(2, ((map.step_s * 1000) / (axis.to - axis.from)) * axis.width - 1);
  for (const [index, numbers] of map.counts.entries()) {
    const left = x(axis, Date.parse(map.at[index]!));
    if (left + wide < 0) continue;
    for (const [row, number] of numbers.entries()) {
      if (!number) continue;
      const shade = Math.min(SHADES - 1, Math.floor((Math.log1p(number) / Math.log1p(most)) * SHADES));
      paths[shade] +=
        `M${left.toFixed(1)} ${(rows - 1 - row) * ROW}h${wide.toFixed(1)}v${ROW - 2}h${(-wide).toFixed(1)}z`;
    }
  }
  return paths;
}

function summaryOf(map: LagMap): string {
  const sums = map.bounds_ms.map((_, row) => map.counts.reduce((sum, one) => sum + (one[row] ?? 0), 0));
  const all = map.counts.flat().reduce((sum, one) => sum + one, 0);
  if (!all) return "Nothing started in this time.";
  const second = map.bounds_ms.findIndex((bound) => bound >= 1000);
  const late = all - sums.slice(0, second + 1).reduce((sum, one) => sum + one, 0);
  return `${count(all)} ${all === 1 ? "start" : "starts"}, ${late ? `${count(late)} of them` : "none"} more than a second late`;
}
