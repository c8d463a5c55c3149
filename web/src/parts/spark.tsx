/** A few numbers as a tiny plot inside a line of text. */

const HIGH = 18;
const STEP = 6;

export function Spark({ values, words }: { values: number[]; words: string }) {
  const most = Math.max(1, ...values);
  const wide = values.length * STEP;
  const path = values.map((value, index) => {
    const high = value ? Math.max(2, (value / most) * HIGH) : 0.75;
    return `M${index * STEP} ${HIGH}v${(-high).toFixed(1)}h${STEP - 1.5}V${HIGH}z`;
  });
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${wide} ${HIGH}`}
      width={wide}
      height={HIGH}
      role="img"
      aria-label={words}
    >
      <title>{words}</title>
      <path d={path.join("")} />
    </svg>
  );
}
