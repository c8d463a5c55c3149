import assert from "node:assert/strict";
import { test } from "node:test";
import { completions, parsed, written } from "./qualified.ts";

const NAMES = ["state", "queue", "tag"];

test("words with a known name are filters, the others are looked for as they are", () => {
  assert.deepEqual(parsed('state:dead queue:"my mail" nightly re:port', NAMES), {
    filters: { state: "dead", queue: "my mail" },
    words: "nightly re:port",
  });
  assert.deepEqual(parsed("", NAMES), { filters: {}, words: "" });
});

test("what is written is read as the same", () => {
  const text = written({ state: "dead", queue: "my mail", tag: undefined }, "nightly run");
  assert.equal(text, 'state:dead queue:"my mail" nightly run');
  assert.deepEqual(parsed(text, NAMES), {
    filters: { state: "dead", queue: "my mail" },
    words: "nightly run",
  });
});

test("the last word is completed: its name first, then its value", () => {
  const values = { state: ["dead", "running"], queue: ["default", "my mail"] };
  assert.deepEqual(completions("abc st", values), ["abc state:"]);
  assert.deepEqual(completions("state:d", values), ["state:dead "]);
  assert.deepEqual(completions("queue:my", values), ['queue:"my mail" ']);
  assert.deepEqual(completions("state:dead ", values), ["state:dead state:", "state:dead queue:"]);
  assert.deepEqual(completions("nothing:x", values), []);
});
