/** How far a task says it has come. */
import type { Progress } from "../types.ts";

export function Progressed({ of }: { of: Progress }) {
  const share = of.share === null ? null : Math.min(1, Math.max(0, of.share));
  const words = [share === null ? "" : `${Math.round(share * 100)} %`, of.note ?? ""]
    .filter(Boolean)
    .join(" · ");
  return (
    <span class="progressed">
      {share !== null && <progress class="narrow" max={1} value={share} aria-label={words} />}
      <small>{words}</small>
    </span>
  );
}
