import assert from "node:assert/strict";
import { test } from "node:test";
import { entryOf } from "./crontab.ts";

test("a line with curl becomes a call with its method, headers and body", () => {
  const line = `30 2 * * *  curl -fsS -X PUT -H 'X-Shop: "main"' -d "{\\"full\\": true}" https://shop.example/hooks/night >/dev/null 2>&1`;
  assert.deepEqual(entryOf(line), {
    draft: {
      when: "cron",
      cron: "30 2 * * *",
      kind: "http",
      name: "night",
      method: "PUT",
      url: "https://shop.example/hooks/night",
      headers: 'X-Shop: "main"',
      body: '{"full": true}',
    },
    notes: [],
  });
});

test("a call without a method is a GET, and with a body a POST", () => {
  const methodOf = (command: string) => entryOf(`@hourly ${command}`)?.draft.method;
  assert.equal(methodOf("wget -q https://shop.example/ping"), "GET");
  assert.equal(methodOf("curl https://shop.example/ping -d x=1"), "POST");
});

test("what the form cannot hold is named, and a password is not taken into it", () => {
  const entry = entryOf("0 0 * * 1-5 curl -u me:secret https://shop.example/ping");
  assert.deepEqual(entry?.notes, ["not taken over: -u"]);
  assert.doesNotMatch(JSON.stringify(entry), /secret/);
});

test("any other command becomes a task that has to be known to a worker", () => {
  const entry = entryOf("*/5 * * * * /opt/shop/sync-stock.sh --all");
  assert.equal(entry?.draft.task, "sync-stock");
  assert.equal(entry?.draft.payload, '{"command":"/opt/shop/sync-stock.sh --all"}');
  assert.match(entry?.notes[0] ?? "", /worker/);
});

test("of a pasted file the first entry counts, in the zone above it", () => {
  const file = "# nightly\nMAILTO=ops\nCRON_TZ=Asia/Tokyo\n@daily wget https://shop.example/a\n@hourly true";
  assert.deepEqual(
    [entryOf(file)?.draft.cron, entryOf(file)?.draft.zone, entryOf(file)?.draft.url],
    ["@daily", "Asia/Tokyo", "https://shop.example/a"],
  );
});

test("what is no entry is none", () => {
  for (const text of ["", "hello", "# 0 0 * * * true", "0 0 * * *", "@reboot true", "MAILTO=me"])
    assert.equal(entryOf(text), null, text);
});
