/** "As curl, as CLI": what the page does, for a shell. */
import { base, tenant } from "../api.ts";
import { say } from "./dialog.tsx";

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

export function asCurl(method: string, path: string, body?: unknown): string {
  const parts = [
    "curl -s",
    method === "GET" ? "" : `-X ${method}`,
    quoted(`${location.origin}${base}/v1${path}`),
  ];
  parts.push('-H "Authorization: Bearer $TOCSIN_API_KEY"');
  if (tenant.value) parts.push(`-H ${quoted(`Tocsin-Tenant: ${tenant.value}`)}`);
  if (body !== undefined)
    parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  return parts.filter(Boolean).join(" ");
}

export const asCli = (...words: string[]) =>
  ["tocsin", ...words, ...(tenant.value ? ["--tenant", tenant.value] : [])]
    .map((word) => (/^[\w./:=@-]+$/.test(word) ? word : quoted(word)))
    .join(" ");

/** Filters of a list as options of the command that lists the same; what is on or off is an option without a value. */
export const asOptions = (set: Record<string, string | undefined>) =>
  Object.entries(set).flatMap(([name, value]) =>
    value ? [`--${name.replaceAll("_", "-")}`, ...(value === "true" ? [] : [value])] : [],
  );

const SAID = 80;

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied: ${text.slice(0, SAID)}${text.length > SAID ? " …" : ""}`);
  } catch {
    say("The browser did not let us copy; it is in the button's hint.", true);
  }
}

/** A text that is meant to be taken along: an id, a key. */
export function Copied({ text, name }: { text: string; name: string }) {
  return (
    <button type="button" class="link copied" title={`Copy ${name}`} onClick={() => void copy(text)}>
      <code>{text}</code>
    </button>
  );
}

interface CopyProps {
  /** What it does, where that is not plain from the place. */
  what?: string;
  curl: string;
  cli?: string | undefined;
  python?: string;
}

export function Copy({ what, curl, cli, python }: CopyProps) {
  return (
    <span class="copy">
      {what} as{" "}
      <button type="button" class="link" title={curl} onClick={() => void copy(curl)}>
        curl
      </button>
      {cli && (
        <>
          {" · "}
          <button type="button" class="link" title={cli} onClick={() => void copy(cli)}>
            CLI
          </button>
        </>
      )}
      {python && (
        <>
          {" · "}
          <button type="button" class="link" title={python} onClick={() => void copy(python)}>
            Python
          </button>
        </>
      )}
    </span>
  );
}
