/** The tasks that workers serve, each with how many take it. Pure. */
import type { Worker } from "./types.ts";

export interface Served {
  name: string;
  /** Workers that take it now; those that drain or are gone do not. */
  workers: number;
  queues: string[];
  /** The revisions of the workers that take it: more than one while a release goes out. */
  revisions: string[];
}

export function servedBy(workers: Worker[]): Served[] {
  const names = [...new Set(workers.flatMap((worker) => worker.tasks))].sort();
  return names.map((name) => {
    const knowing = workers.filter((worker) => worker.tasks.includes(name));
    const taking = knowing.filter((worker) => worker.state === "active");
    return {
      name,
      workers: taking.length,
      queues: distinct(taking.flatMap((worker) => worker.queues)),
      revisions: distinct(taking.flatMap((worker) => worker.revision ?? [])),
    };
  });
}

const distinct = (words: string[]) => [...new Set(words)].sort();
