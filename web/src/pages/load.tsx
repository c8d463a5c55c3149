/** The coming day as hours and minutes: the darker, the more fires are expected. Peaks are named, free minutes marked. */
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { useWidth } from "../plots/history.tsx";
import { address } from "../router.ts";
import { count, duration, minute, moment, now } from "../time.ts";
import type { Forecast } from "../types.ts";

const HOUR = 3_600_000;
const ROW = 20;
const LEFT = 44;
const SHADES = 5;

export function Load() {
  const from = Math.floor(now() / HOUR) * HOUR;
  const range = {
    from: new Date(from).toISOString(),
    to: new Date(from + 24 * HOUR).toISOString(),
    step: "1m",
  };
  const found = useData<Forecast>(`/forecast${query(range)}`, true, 60_000);
  return (
    <Part of={found}>
      {(data) => (
        <>
          <section class="card">
            <h2>The coming 24 hours, a minute a cell</h2>
            {nothing(data) ? (
              <Empty title="No fires are expected">
                <p>The jobs of the coming day show here when they fire together, and when nothing does.</p>
              </Empty>
            ) : (
              <HeatMap forecast={data} from={from} />
            )}
          </section>
          <div class="columns">
            <section class="card">
              <h2>Peaks</h2>
              <Peaks forecast={data} />
            </section>
            <section class="card">
              <h2>Free minutes</h2>
              <p class="calm">
                {data.free.length
                  ? data.free
                      .slice(0, 12)
                      .map((at) => minute(Date.parse(at)))
                      .join(", ")
                  : "No minute has fewer fires than the others."}
              </p>
            </section>
          </div>
          <p class="hint">
            {data.age_s === null
              ? "Schedulers have not looked at all jobs yet."
              : `Foreseen ${duration(data.age_s * 1000)} ago; changes of jobs appear within seconds.`}
          </p>
          <Copy curl={asCurl("GET", `/forecast${query(range)}`)} cli={asCli("forecast")} />
        </>
      )}
    </Part>
  );
}

const nothing = ({ expected, one_offs }: Forecast) => ![...expected, ...one_offs].some(Boolean);

function HeatMap({ forecast, from }: { forecast: Forecast; from: number }) {
  const all = forecast.expected.map((fires, index) => fires + (forecast.one_offs[index] ?? 0));
  const whole = (index: number) => Date.parse(forecast.at[index]!) > now(); // of this minute only the rest is expected
  const some = all.filter((fires, index) => fires && whole(index));
  const [least, most] = [Math.min(...some, Number.MAX_VALUE), Math.max(1, ...some)];
  const [box, width] = useWidth();
  const cell = Math.max(0, (width - LEFT) / 60);
  const paths = Array.from({ length: SHADES }, () => "");
  const wide = Number((cell - (cell > 6 ? 1 : 0.5)).toFixed(1));
  for (const [index, fires] of all.entries()) {
    if (!fires) continue;
    const minutes = Math.floor((Date.parse(forecast.at[index]!) - from) / 60_000);
    const shade = shadeOf(fires, least, most);
    const [column, row] = [minutes % 60, Math.floor(minutes / 60)];
    paths[shade] += `M${(LEFT + column * cell).toFixed(1)} ${row * ROW}h${wide}v${ROW - 2}h${-wide}z`;
  }
  const peak = forecast.peaks[0];
  const words = peak
    ? `the peak is ${count(peak.fires)} fires at ${moment(peak.at)}`
    : some.length
      ? `${count(least)} to ${count(most)} fires a minute`
      : "no fires are expected";
  return (
    <div ref={box} class="heat">
      {some.length > 0 && (
        <p class="scale">
          {count(least)}
          {most > least && paths.map((_, shade) => <i key={shade} class={`shade-${shade}`} />)}
          {most > least ? count(most) : ""} a minute
        </p>
      )}
      <svg width={width} height={24 * ROW + 16} role="img" aria-label={words}>
        <title>{words}</title>
        {Array.from({ length: 24 }, (_, row) => (
          <text key={row} class="label" x={0} y={row * ROW + 13}>
            {minute(from + row * HOUR)}
          </text>
        ))}
        {[0, 15, 30, 45].map((column) => (
          <text key={column} class="label" x={LEFT + column * cell} y={24 * ROW + 12}>
            :{String(column).padStart(2, "0")}
          </text>
        ))}
        {paths.map((path, shade) => (
          <path key={shade} class={`shade-${shade}`} d={path} />
        ))}
      </svg>
    </div>
  );
}

/** How dark a cell is, between the least and the most of the day. Equal ones are neither. */
function shadeOf(fires: number, least: number, most: number): number {
  if (most === least) return Math.floor(SHADES / 2);
  const share = Math.log(fires / least) / Math.log(most / least);
  return Math.max(0, Math.min(SHADES - 1, Math.floor(share * SHADES)));
}

function Peaks({ forecast }: { forecast: Forecast }) {
  if (!forecast.peaks.length) {
    const any = forecast.expected.some(Boolean) || forecast.one_offs.some(Boolean);
    return <p class="calm">{any ? "No minute stands out from the others." : "No fires are expected."}</p>;
  }
  return (
    <ul class="works">
      {forecast.peaks.slice(0, 6).map((peak) => (
        <li key={peak.at}>
          <b>{moment(peak.at)}</b> {count(peak.fires)} fires
          <small>
            {peak.jobs.slice(0, 3).map((job) => (
              <a key={job.id} href={address(`/jobs/${job.id}`)}>
                {job.name ?? job.id.slice(0, 14)} {count(job.fires)}{" "}
              </a>
            ))}
          </small>
        </li>
      ))}
    </ul>
  );
}
