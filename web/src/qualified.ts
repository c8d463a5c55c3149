/** A search in words: `state:dead queue:mail "invoice run"`. What has no name before it is looked for in the text. Pure. */

export type Filters = Record<string, string | undefined>;

const WORD = /(?:(\w+):)?(?:"([^"]*)"?|(\S+))/g;

/** The filters that a text names, and the words that are left, joined. An unknown name is part of the words. */
export function parsed(text: string, names: string[]): { filters: Filters; words: string } {
  const filters: Filters = {};
  const words: string[] = [];
  for (const [whole, name, quoted, plain] of text.matchAll(WORD)) {
    const value = quoted ?? plain ?? "";
    if (name && names.includes(name)) filters[name] = value;
    else words.push(name ? whole : value);
  }
  return { filters, words: words.join(" ") };
}

/** The text that says the same. */
export function written(filters: Filters, words: string): string {
  const parts = Object.entries(filters).flatMap(([name, value]) =>
    value ? [`${name}:${/\s/.test(value) ? `"${value}"` : value}`] : [],
  );
  return [...parts, words].filter(Boolean).join(" ");
}

/** The word that is being typed at the end, split at its colon. */
export function last(text: string): { before: string; name: string | null; begun: string } {
  const at = text.search(/\S*$/);
  const word = text.slice(at);
  const colon = word.indexOf(":");
  return {
    before: text.slice(0, at),
    name: colon < 0 ? null : word.slice(0, colon),
    begun: colon < 0 ? word : word.slice(colon + 1),
  };
}

/** What the last word could become: names of filters first, then the values of the one that is named. */
export function completions(text: string, values: Record<string, string[]>): string[] {
  const { before, name, begun } = last(text);
  const fits = (one: string) => one.toLowerCase().startsWith(begun.toLowerCase());
  if (name === null) {
    return Object.keys(values)
      .filter(fits)
      .map((one) => `${before}${one}:`);
  }
  return (values[name] ?? [])
    .filter((one) => fits(one) && one !== begun)
    .slice(0, 10)
    .map((one) => `${before}${name}:${/\s/.test(one) ? `"${one}"` : one} `);
}
