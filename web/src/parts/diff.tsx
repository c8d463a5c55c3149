/** What changed between two values, field by field. */
import type { Change } from "../difference.ts";
import { differences } from "../difference.ts";

export function Diff({ before, after }: { before: unknown; after: unknown }) {
  const found = differences(before, after);
  if (!found.length) return <p class="calm">Nothing of it differs.</p>;
  return (
    <dl class="diff">
      {found.map((change) => (
        <One key={change.path} change={change} />
      ))}
    </dl>
  );
}

function One({ change: { path, before, after } }: { change: Change }) {
  return (
    <div>
      <dt>{path || "all of it"}</dt>
      <dd>
        {before !== undefined && <del>{text(before)}</del>}
        {after !== undefined && <ins>{text(after)}</ins>}
      </dd>
    </div>
  );
}

const text = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value, null, 1));
