import assert from "node:assert/strict";
import { test } from "node:test";
import { servedBy } from "./served.ts";
import type { Worker } from "./types.ts";

const worker = (more: Partial<Worker>): Worker =>
  ({ state: "active", queues: ["default"], revision: "1", tasks: ["shop.mail"], ...more }) as Worker;

test("a task counts the workers that take it, under the revisions that they have", () => {
  const old = worker({});
  const fresh = worker({ revision: "2", queues: ["mail", "default"], tasks: ["shop.mail", "shop.new"] });
  assert.deepEqual(servedBy([old, fresh]), [
    { name: "shop.mail", workers: 2, queues: ["default", "mail"], revisions: ["1", "2"] },
    { name: "shop.new", workers: 1, queues: ["default", "mail"], revisions: ["2"] },
  ]);
});

test("a task that only draining or gone workers know is taken by nobody", () => {
  const left = [worker({ state: "draining" }), worker({ state: "gone", revision: null })];
  assert.deepEqual(servedBy(left), [{ name: "shop.mail", workers: 0, queues: [], revisions: [] }]);
});
