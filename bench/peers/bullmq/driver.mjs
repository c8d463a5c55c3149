// BullMQ: see bench/peers/driven.py for the commands. The store is the path of the Redis server's Unix socket.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { byClients, command, go, inBulks, now, options, payload, recorder, setUp, thisMinute, timed } from "./bench.mjs";

const NAME = "noop";
const connection = new Redis(options.store, { maxRetriesPerRequest: null });
const queue = new Queue(NAME, { connection, defaultJobOptions: { removeOnComplete: true } });
await queue.waitUntilReady();

/** Due at an instant: a delay after the job's own time stamp. */
function delayed(due) {
  const timestamp = Math.floor(now());
  return { timestamp, delay: Math.max(0, Math.ceil(due - timestamp)) };
}

async function work() {
  const note = recorder();
  const worker = new Worker(NAME, async ({ data }) => void note(data.due ?? thisMinute()), {
    connection,
    concurrency: 200,
    removeOnComplete: { count: 0 },
  });
  worker.on("error", (error) => console.error(error));
  await worker.waitUntilReady();
}

switch (command) {
  case "create":
    await timed(() => byClients((due) => queue.add(NAME, payload(due), delayed(due))));
    break;
  case "enqueue":
    await timed(() =>
      inBulks((dues) => queue.addBulk(dues.map((due) => ({ name: NAME, data: payload(due), opts: delayed(due) })))),
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
      const template = { name: NAME, data: { text } };
      await queue.upsertJobScheduler(`every-minute-${number}`, { pattern: "* * * * *" }, template);
    }
    await work();
    setUp();
  }
}
if (options.starts === undefined) {
  await queue.close();
  connection.disconnect();
}
