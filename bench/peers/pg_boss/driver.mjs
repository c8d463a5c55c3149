// pg-boss: see bench/peers/driven.py for the commands.
import { PgBoss } from "pg-boss";
import { byClients, command, go, inBulks, options, payload, recorder, setUp, thisMinute, timed } from "./bench.mjs";

const QUEUE = "noop";
const boss = new PgBoss({
  connectionString: options.store,
  schedule: command === "recur",
  cronMonitorIntervalSeconds: 1,
  cronWorkerIntervalSeconds: 1,
});
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue(QUEUE);

async function work() {
  const note = recorder();
  const settings = { batchSize: 1000, localConcurrency: 2, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
  await boss.work(QUEUE, settings, async (jobs) => {
    for (const { data } of jobs) note(data.due ?? thisMinute());
  });
}

switch (command) {
  case "create":
    await timed(() => byClients((due) => boss.send(QUEUE, payload(due), { startAfter: new Date(due) })));
    break;
  case "enqueue":
    await timed(() =>
      inBulks((dues) => boss.insert(QUEUE, dues.map((due) => ({ data: payload(due), startAfter: new Date(due) })))),
    );
    break;
  case "work":
    await go();
    await work();
    break;
  case "recur": {
    await go();
    const { text } = payload(0);
    for (let number = 0; number < options.count; number++) {
      await boss.schedule(QUEUE, "* * * * *", { text }, { key: `every-minute-${number}` });
    }
    await work();
    setUp();
  }
}
if (options.starts === undefined) await boss.stop({ graceful: false });
