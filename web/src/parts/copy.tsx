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

/** Filters of a list as options of the command that lists the same. */
export const asOptions = (set: Record<string, string | undefined>) =>
  Object.entries(set).flatMap(([name, value]) => (value ? [`--${name.replaceAll("_", "-")}`, value] : []));

export function Copy({ curl, cli }: { curl: string; cli?: string }) {
  const copy = async (text: string) => {
    await navigator.clipboard.writeText(text).catch(() => undefined);
    say(`Copied: ${text.slice(0, 80)}${text.length > 80 ? " …" : ""}`);
  };
  return (
    <span class="copy">
      as{" "}
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
    </span>
  );
}
