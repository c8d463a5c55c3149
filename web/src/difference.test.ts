import assert from "node:assert/strict";
import { test } from "node:test";
import { differences } from "./difference.ts";

test("only fields that differ are told, by their path", () => {
  const found = differences({ a: 1, retry: { max: 3, on: [1] } }, { a: 1, retry: { max: 5, on: [1] } });
  assert.deepEqual(found, [{ path: "retry.max", before: 3, after: 5 }]);
});

test("what came and what went has one side only", () => {
  assert.deepEqual(differences({ a: 1 }, { b: 2 }), [
    { path: "a", before: 1, after: undefined },
    { path: "b", before: undefined, after: 2 },
  ]);
});

test("a thing that was created is told field by field", () => {
  assert.deepEqual(differences(null, { name: "x" }), [{ path: "name", before: undefined, after: "x" }]);
});
