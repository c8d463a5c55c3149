/** Which fields of two JSON values differ. Pure. */

export interface Change {
  path: string;
  before: unknown;
  after: unknown;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Fields that differ, by path, in the order of their names. Lists are compared as a whole: their order means something. */
export function differences(before: unknown, after: unknown, path = ""): Change[] {
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return names.flatMap((name) => differences(before[name], after[name], path ? `${path}.${name}` : name));
  }
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (isObject(after) && (before === null || before === undefined)) return differences({}, after, path);
  if (isObject(before) && (after === null || after === undefined)) return differences(before, {}, path);
  return [{ path, before: before ?? undefined, after: after ?? undefined }];
}
