import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, draftOf, mannerOf, optionsOf, placeOf, type Rule, watchedOf } from "./alert_rule.ts";
import type { AlertView } from "./types.ts";

const SLOW = {
  name: "slow",
  watch: { kind: "lag", within: "1s", share: 0.95, queue: "7" },
  channels: ["ops"],
  lasting: "5m",
  repeat: 7200,
  quiet: { begins: "22:00", ends: "07:00", time_zone: "Europe/Berlin" },
} as unknown as Rule;

test("a rule that is edited and not changed is written as it was", () => {
  const { name: _, repeat: _seconds, ...rule } = SLOW;
  assert.deepEqual(bodyOf(draftOf(SLOW, "UTC")), { ...rule, repeat: "7200s" });
});

test("what is left empty is left to the API, and a rule of the fleet says so", () => {
  const draft = draftOf({}, "UTC");
  assert.deepEqual(bodyOf({ ...draft, channels: ["ops"] }), {
    watch: { kind: "dead_letters" },
    channels: ["ops"],
    repeat: "4h",
  });
  assert.deepEqual(bodyOf({ ...draft, kind: "clock", channels: ["ops"], repeat: "" }), {
    watch: { kind: "clock" },
    channels: ["ops"],
    scope: "fleet",
  });
});

test("settings of another kind are not sent along", () => {
  const draft = { ...draftOf(SLOW, "UTC"), kind: "unserved" };
  assert.deepEqual((bodyOf(draft) as { watch: object }).watch, { kind: "unserved" });
});

test("the command line says the same", () => {
  assert.deepEqual(
    optionsOf(draftOf(SLOW, "UTC")).join(" "),
    [
      "--watch lag --with within=1s --with share=0.95 --with queue=7 --channel ops --lasting 5m --repeat 7200s",
      "--quiet 22:00-07:00@Europe/Berlin",
    ].join(" "),
  );
});

test("a rule is told in words", () => {
  assert.equal(
    watchedOf(SLOW),
    "fires start late, on time is within 1s, share that has to be 0.95, only in the queue 7",
  );
  assert.equal(mannerOf(SLOW), "after 5m, again every 7200s, quiet 22:00–07:00 Europe/Berlin");
  assert.equal(
    watchedOf({ name: "x", watch: { kind: "of_tomorrow" }, channels: [] } as unknown as Rule),
    "of tomorrow",
  );
});

test("what was found is seen where it is", () => {
  const alert = (group: string, detail: object) => ({ group, detail }) as unknown as AlertView;
  assert.deepEqual(placeOf(alert("acme/f00", { job: "job_1", tenant: "acme" }), "dead_letters"), [
    "/dead-letters",
    { tenant: "acme", fingerprint: "f00" },
  ]);
  assert.deepEqual(placeOf(alert("job_1", { job: "job_1" }), "did_not_run"), ["/jobs/job_1", {}]);
  assert.deepEqual(placeOf(alert("a/b", { queue: "a/b" }), "lag"), ["/queues/a%2Fb", {}]);
  assert.equal(placeOf(alert("-", {}), "dead_mans_switch"), null);
});
