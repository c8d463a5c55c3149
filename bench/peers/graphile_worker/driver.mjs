// graphile-worker: see bench/peers/driven.py for the commands.
import { Logger, makeWorkerUtils, parseCronItems, run } from "graphile-worker";
import { byClients, command, go, inBulks, options, payload, recorder, setUp, timed } from "./bench.mjs";

const logger = new Logger(() => (level, message) => level === "error" && console.error(message));
const preset = {
  worker: {
    connectionString: options.store,
    maxPoolSize: 10,
    concurrentJobs: 24,
    pollInterval: 100,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};
const utils = await makeWorkerUtils({ preset, logger });
await utils.migrate();

async function work(parsedCronItems) {
  const note = recorder();
  await run({
    preset,
    logger,
    noHandleSignals: true,
    parsedCronItems,
    taskList: { noop: async ({ due, _cron }) => void note(due ?? Date.parse(_cron.ts)) },
  });
}

switch (command) {
  case "create":
    await timed(() => byClients((due) => utils.addJob("noop", payload(due), { runAt: new Date(due) })));
    break;
  case "enqueue":
    await timed(() =>
      inBulks((dues) =>
        utils.addJobs(dues.map((due) => ({ identifier: "noop", payload: payload(due), runAt: new Date(due) }))),
      ),
    );
    break;
  case "work":
    await go();
    await work([]);
    break;
  case "recur": {
    await go();
    const { text } = payload(0);
    const items = Array.from({ length: options.count }, (_, number) => ({
      task: "noop",
      match: "* * * * *",
      identifier: `every-minute-${number}`,
      payload: { text },
    }));
    await work(parseCronItems(items));
    setUp();
  }
}
if (options.starts === undefined) await utils.release();
