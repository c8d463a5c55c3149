// What the Node drivers share: their command, payloads, the record of starts, the hand-over to the harness.
import { openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

export const BULK = 1000;
export const command = process.argv[2];
export const options = JSON.parse(process.argv[3]);
export const now = () => performance.timeOrigin + performance.now();

/** About 200 bytes of JSON. */
export const payload = (due) => ({ due, text: "x".repeat(165) });

export const someDue = () => options.due + Math.random() * options.spread;

/** Print how long the work took. */
export async function timed(work) {
  const began = now();
  await work();
  console.log(JSON.stringify({ seconds: (now() - began) / 1000 }));
}

/** `count` calls of `work` by `clients` at once. */
export async function byClients(work) {
  let left = options.count;
  const client = async () => {
    while (left-- > 0) await work(someDue());
  };
  await Promise.all(Array.from({ length: options.clients }, client));
}

/** `count` payload instants, handed to `work` in bulks. */
export async function inBulks(work) {
  for (let left = options.count; left > 0; left -= BULK) {
    await work(Array.from({ length: Math.min(BULK, left) }, someDue));
  }
}

/** A function that notes a start; what it noted is written every few milliseconds. */
export function recorder() {
  const file = openSync(options.starts, "a");
  let noted = [];
  setInterval(() => {
    if (noted.length) writeSync(file, new Uint8Array(Float64Array.from(noted).buffer));
    noted = [];
  }, 5);
  return (due) => noted.push(due, now());
}

/** The minute a recurring job belongs to, where the peer does not say. */
export const thisMinute = () => Math.floor(now() / 60000) * 60000;

/** Say that this worker is up, and wait for the go. */
export async function go() {
  console.log("ready");
  for await (const _ of createInterface({ input: process.stdin })) return;
}

export const setUp = () => console.log("set up");
