/** Headers and credentials of a target as a form holds them: a line each, and `secret:name` for a value that is kept apart. Pure. */

export type Value = string | { secret: string };
export type Auth = { kind: string; token?: Value; username?: Value; password?: Value } | null;

const SECRET = "secret:";

export const credentialOf = (text: string): Value =>
  text.startsWith(SECRET) ? { secret: text.slice(SECRET.length).trim() } : text;

export const textOf = (value: Value | undefined): string =>
  value === undefined ? "" : typeof value === "string" ? value : SECRET + value.secret;

export function headersOf(text: string): Record<string, Value> {
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      return [name.trim(), credentialOf(colon < 0 ? "" : line.slice(colon + 1).trim())];
    }),
  );
}

export const linesOf = (headers: Record<string, unknown>): string =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${textOf(value as Value)}`)
    .join("\n");

/** Kinds that the form can write; credentials of another kind stay as they are. */
export const KINDS = ["none", "bearer", "basic"];

export function authOf(kind: string, username: string, credential: string): { auth?: Auth } {
  switch (kind) {
    case "none":
      return { auth: null };
    case "bearer":
      return { auth: { kind, token: credentialOf(credential) } };
    case "basic":
      return { auth: { kind, username: credentialOf(username), password: credentialOf(credential) } };
    default:
      return {};
  }
}
