/** Server-sent events out of a text that arrives in pieces. Pure. */

export interface Told {
  /** What it is about: `pulse`, `operation`, or a word of a newer server. */
  name: string;
  data: unknown;
}

/** The whole events of a text, and what is left of it: the beginning of the next one. */
export function taken(text: string): { events: Told[]; rest: string } {
  const parts = text.split("\n\n");
  const rest = parts.pop() ?? "";
  return { events: parts.flatMap(read), rest };
}

function read(event: string): Told[] {
  const lines = event.split("\n");
  const of = (field: string) => lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2);
  const data = of("data");
  return data === undefined ? [] : [{ name: of("event") ?? "pulse", data: JSON.parse(data) }];
}
