/** A value as a tree that opens and closes. It is shown as text, never as anything else. */
import type { ComponentChildren } from "preact";

/** Up to how many entries a branch is open at first; and how many of a long one are shown. */
const OPEN_UP_TO = 12;
const MOST_ENTRIES = 200;
const MOST_TEXT = 256 * 1024;

/** What was answered: a tree where it is JSON whose numbers survive being read, else the text itself. */
export function Body({ of }: { of: unknown }) {
  const text = typeof of === "string" ? of : JSON.stringify(of, null, 2);
  const value = typeof of === "string" ? read(of) : of;
  if (typeof value === "object" && value !== null && text.length <= MOST_TEXT) return <Json value={value} />;
  return (
    <>
      <pre>{text.slice(0, MOST_TEXT)}</pre>
      {text.length > MOST_TEXT && <Download text={text} />}
    </>
  );
}

function read(text: string): unknown {
  if (!/^\s*[[{]/.test(text) || /\d{16}/.test(text)) return null; // a number so long would come out changed
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function Download({ text }: { text: string }) {
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = "answer.txt";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <button type="button" class="small" onClick={save}>
      Download all of it
    </button>
  );
}

export function Json({ value }: { value: unknown }) {
  return (
    <div class="json">
      <Node value={value} depth={0} />
    </div>
  );
}

function Node({ name, value, depth }: { name?: string | undefined; value: unknown; depth: number }) {
  if (typeof value !== "object" || value === null) return <Line name={name}>{leaf(value)}</Line>;
  const list = Array.isArray(value);
  const entries = Object.entries(value);
  if (!entries.length) return <Line name={name}>{list ? "[]" : "{}"}</Line>;
  return (
    <details open={depth === 0 || (depth < 3 && entries.length <= OPEN_UP_TO)}>
      <summary>
        {name !== undefined && <b>{name}: </b>}
        <span class="none">{list ? `[ ${entries.length} ]` : `{ ${entries.length} }`}</span>
      </summary>
      {entries.slice(0, MOST_ENTRIES).map(([key, one]) => (
        <Node key={key} name={list ? undefined : key} value={one} depth={depth + 1} />
      ))}
      {entries.length > MOST_ENTRIES && <p class="none">and {entries.length - MOST_ENTRIES} more</p>}
    </details>
  );
}

function Line({ name, children }: { name?: string | undefined; children: ComponentChildren }) {
  return (
    <p>
      {name !== undefined && <b>{name}: </b>}
      {children}
    </p>
  );
}

function leaf(value: unknown) {
  const kind = value === null ? "null" : typeof value;
  return <span class={`leaf ${kind}`}>{kind === "string" ? JSON.stringify(value) : String(value)}</span>;
}
