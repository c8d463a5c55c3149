// A complete Tocsin worker in TypeScript, in one file, with Node's standard library alone.
//
//   TOCSIN_API_KEY=… node worker.ts         (Node 22.18 or newer; for older ones, remove the types with esbuild)
//
// Replace the handlers at the end by your own. docs/protocol.md has the rules that the rest keeps to:
// `tocsin conformance -- node worker.ts` checks them.
import {hostname} from "node:os"
import {Worker as Thread} from "node:worker_threads"

const URL_ = process.env.TOCSIN_URL ?? "http://127.0.0.1:8420"
const KEY = process.env.TOCSIN_API_KEY ?? ""
const CAPACITY = 20
const GRACE_MS = 25_000 // for what runs, after SIGTERM
const LONG_POLL_MS = 20_000
const MAX_RESULT = 256 * 1024
const MAX_LINES = 1000
const LINES_AT_ONCE = 200

// What goes over the wire. Tokens are text: they have 63 bits.
type Json = null | boolean | number | string | Json[] | {[name: string]: Json}
type Claim = {id: string; token: string; task: string; payload: any; attempt: number; timeout_ms: number; idempotency_key: string}
type Line = {seq: number; at: string; message: string; fields?: Record<string, Json>}
type Progress = {share: number; note: string}
type Settlement = {
  id: string; token: string; verdict: string; result?: Json; error?: {kind: string; message: string}; reason?: string
  retry_after_ms?: number; logs?: Line[]
}
type Settled = {id: string; status: "ok" | "lost" | "refused"; problem?: string | null}
type Stop = {id: string; reason: string}
type Given = {claims: Claim[]; settled: Settled[]; stop: Stop[]; drain: boolean}
type Heard = {lost: string[]; stop: Stop[]; drain: boolean}
type Registered = {worker: string; lease_ms: number; heartbeat_ms: number}

// How a handler ends other than by returning a value or throwing anything else, which counts as failed.
class Outcome extends Error {
  verdict: string
  waitMs: number | undefined
  constructor(verdict: string, reason: string, waitMs?: number) {
    super(reason)
    this.verdict = verdict
    this.waitMs = waitMs
  }
}
const reject = (reason: string) => new Outcome("rejected", reason)
const skip = (reason: string) => new Outcome("skipped", reason)
const retryAfter = (ms: number, reason: string) => new Outcome("failed", reason, ms)
const postpone = (ms: number, reason: string) => new Outcome("postponed", reason, ms)

// A claim that is being run. Handlers end when its signal is aborted.
class Attempt {
  readonly claim: Claim
  readonly stop = new AbortController()
  lost = false
  lines: Line[] = []
  told: Progress | undefined
  private seq = 0

  constructor(claim: Claim) {
    this.claim = claim
  }
  get signal(): AbortSignal {
    return this.stop.signal
  }
  progress(share: number, note = ""): void {
    this.told = {share, note}
  }
  log(message: string, fields?: Record<string, Json>): void {
    if (this.seq < MAX_LINES) this.lines.push({seq: ++this.seq, at: new Date().toISOString(), message, fields})
  }
}

// An answer that repeating the call would not change.
class Refused extends Error {
  status: number
  constructor(status: number, detail: string) {
    super(`${status}: ${detail}`)
    this.status = status
  }
}
class Busy extends Error {
  afterMs: number
  constructor(status: number, afterMs: number) {
    super(`the server answered ${status}`)
    this.afterMs = afterMs
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

async function call(method: string, path: string, body: unknown, timeoutMs: number): Promise<any> {
  const response = await fetch(URL_ + path, {
    method, headers: {authorization: `Bearer ${KEY}`, "content-type": "application/json"},
    body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(timeoutMs),
  })
  const text = await response.text()
  if (response.status === 429 || response.status >= 500) {
    const seconds = Number(response.headers.get("retry-after"))
    throw new Busy(response.status, Number.isFinite(seconds) ? Math.min(seconds, 60) * 1000 : 0)
  }
  if (response.status >= 400) throw new Refused(response.status, text)
  return JSON.parse(text)
}

// Repeats a call as it was until it is answered or refused. Undefined: it is not wanted any more.
async function persistently(path: string, body: unknown, wanted: () => boolean): Promise<any> {
  for (let wait = 100; ; wait = Math.min(2 * wait, 5000)) {
    try {
      return await call("POST", path, body, LONG_POLL_MS + 10_000)
    } catch (error) {
      if (error instanceof Refused) throw error
      if (!wanted()) return undefined
      await pause(Math.max(wait * (0.5 + Math.random() / 2), error instanceof Busy ? error.afterMs : 0))
    }
  }
}

let me: Registered
let registering: Promise<void> | undefined
let trustedUntil = 0 // what is held is ours until then, by the monotonic clock
let draining = false
let over = false
let settling = false
let failure: Error | undefined
let wake = () => {}
const held = new Map<string, Attempt>()
const outcomes: Settlement[] = []

function register(): Promise<void> {
  registering ??= (async () => {
    me = await persistently("/v1/workers", {
      name: `${hostname()}:${process.pid}`, sdk: "example-typescript", protocol: 1, queues: ["default"],
      tasks: Object.keys(handlers).map((name) => ({name})), capacity: CAPACITY, lease: "30s",
    }, () => !over)
    trustedUntil = performance.now() + 0.9 * me.lease_ms
  })().finally(() => (registering = undefined))
  return registering
}

// Whether a call that failed is worth another try, under a new name. Anything but 410 ends the worker with a message.
async function again(error: unknown): Promise<boolean> {
  try {
    if (error instanceof Refused && error.status === 404) {
      await register()
      return true
    }
  } catch (another) {
    error = another
  }
  if (!(error instanceof Refused && error.status === 410)) failure ??= error as Error
  drain()
  return false
}

function drain(): void {
  draining = true
  wake()
}

async function claimLoop(): Promise<void> {
  for (let seq = 1; !draining; seq++) {
    while (!draining && held.size >= CAPACITY) await pause(10)
    if (draining) return
    const ask = {seq, want: CAPACITY - held.size, wait_ms: LONG_POLL_MS}
    try {
      const given: Given | undefined = await persistently(`/v1/workers/${me.worker}/claim`, ask, () => !draining)
      for (const claim of given?.claims ?? []) begin(claim)
      cancel(given?.stop ?? [])
      if (given?.drain) drain()
    } catch (error) {
      if (!(await again(error))) return
    }
  }
}

// Settles what has ended, as much as fits a call. A parked claim delays none of it.
async function settleLoop(): Promise<void> {
  while (!over) {
    if (outcomes.length === 0) {
      await new Promise<void>((resolve) => (wake = resolve))
      continue
    }
    let size = 0
    let number = 0
    while (number < outcomes.length && number < 1000 && size < 4 << 20) size += JSON.stringify(outcomes[number++]).length
    const sent = outcomes.splice(0, number)
    settling = true
    try {
      const answer = await persistently(`/v1/workers/${me.worker}/settle`, {settle: sent}, () => !over)
      for (const one of (answer?.settled ?? []) as Settled[]) retell(one, sent)
    } catch (error) {
      if (!(await again(error))) return
      outcomes.unshift(...sent)
    } finally {
      settling = false
    }
  }
}

// `lost` ends the matter; what is refused is told otherwise.
function retell(one: Settled, sent: Settlement[]): void {
  const told = sent.find((settlement) => settlement.id === one.id)
  if (one.status !== "refused" || told === undefined || told.verdict === "rejected") return
  const error = {kind: "SettlementRefused", message: one.problem ?? ""}
  outcomes.push({id: told.id, token: told.token, verdict: "rejected", error})
}

async function beatLoop(): Promise<void> {
  while (!over) {
    await pause(me.heartbeat_ms)
    const attempts = [...held.values()]
    const told = attempts.map((one) => ({
      id: one.claim.id, token: one.claim.token, progress: one.told, logs: one.lines.slice(0, LINES_AT_ONCE),
    }))
    const sentAt = performance.now()
    try {
      const body = {held: told, running: told.length}
      const heard: Heard = await call("POST", `/v1/workers/${me.worker}/heartbeat`, body, Math.max(me.lease_ms / 3, 1000))
      trustedUntil = sentAt + 0.9 * me.lease_ms
      attempts.forEach((one, place) => one.lines.splice(0, told[place].logs.length))
      for (const id of heard.lost) lose(attempts.find((one) => one.claim.id === id))
      cancel(heard.stop)
      if (heard.drain) drain()
    } catch (error) {
      if (error instanceof Refused) await again(error)
    }
  }
}

// Stops what others may have by now, because no heartbeat was answered in time.
function watch(): void {
  if (performance.now() >= trustedUntil) for (const attempt of held.values()) lose(attempt)
}

// Another worker's by now: stopped, and never settled.
function lose(attempt: Attempt | undefined): void {
  if (attempt === undefined) return
  attempt.lost = true
  attempt.stop.abort(new Error("another worker has it"))
  if (held.get(attempt.claim.id) === attempt) held.delete(attempt.claim.id)
}

function cancel(stops: Stop[]): void {
  for (const one of stops) held.get(one.id)?.stop.abort(new Outcome("cancelled", one.reason))
}

function begin(claim: Claim): void {
  const handler = handlers[claim.task]
  if (handler === undefined) {
    const claims = [{id: claim.id, token: claim.token}]
    call("POST", `/v1/workers/${me.worker}/release`, {claims}, 10_000).catch(() => {})
    return
  }
  lose(held.get(claim.id)) // ours, lost, and ours again
  const attempt = new Attempt(claim)
  held.set(claim.id, attempt)
  void run(handler, attempt)
}

async function run(handler: Handler, attempt: Attempt): Promise<void> {
  const {id, token, payload, timeout_ms} = attempt.claim
  const timer = setTimeout(() => attempt.stop.abort(new Outcome("timed_out", `not over within ${timeout_ms} ms`)), timeout_ms)
  let told: Settlement
  try {
    const result = (await handler(payload ?? {}, attempt)) ?? null
    attempt.signal.throwIfAborted()
    const size = Buffer.byteLength(JSON.stringify(result))
    if (size > MAX_RESULT) throw reject(`its result has ${size} bytes, more than the ${MAX_RESULT} that are kept`)
    told = {id, token, verdict: "succeeded", result}
  } catch (error) {
    told = {id, token, ...verdictOf(attempt.signal.aborted ? attempt.signal.reason : error)}
  }
  clearTimeout(timer)
  if (attempt.lost || held.get(id) !== attempt) return
  held.delete(id)
  outcomes.push({...told, logs: attempt.lines})
  wake()
}

function verdictOf(error: unknown): Omit<Settlement, "id" | "token"> {
  if (!(error instanceof Outcome)) {
    const {name, message} = error instanceof Error ? error : {name: "Thrown", message: String(error)}
    return {verdict: "failed", error: {kind: name, message}}
  }
  const {verdict, message, waitMs} = error
  if (verdict === "skipped" || verdict === "postponed") return {verdict, reason: message, retry_after_ms: waitMs}
  return {verdict, retry_after_ms: waitMs, error: {kind: verdict, message}}
}

// The end: take no more, finish what runs within the grace or until a second signal, tell the rest, leave.
async function finish(claiming: Promise<void>): Promise<void> {
  let asking = true
  void claiming.then(() => (asking = false))
  while (asking) { // has the parked request answered, until none follows: whatever it was given is known then
    await call("POST", `/v1/workers/${me.worker}/claim`, {seq: 2 ** 40, want: 0}, 1000).catch(() => {})
    await pause(50)
  }
  const until = performance.now() + GRACE_MS
  while (held.size > 0 && !failure && signals < 2 && performance.now() < until) await pause(20)
  for (const attempt of failure ? [] : held.values()) {
    const error = {kind: "WorkerStopped", message: "the worker stopped before the task was over"}
    outcomes.push({id: attempt.claim.id, token: attempt.claim.token, verdict: "failed", error})
    lose(attempt)
  }
  wake()
  const told = performance.now() + GRACE_MS
  while ((outcomes.length > 0 || settling) && !failure && performance.now() < told) await pause(20)
  over = true
  if (failure) {
    console.error(`refused: ${failure.message}`)
    process.exit(1)
  }
  await call("DELETE", `/v1/workers/${me.worker}`, undefined, 5000).catch(() => {})
  process.exit(0)
}

// What keeps the event loop busy runs in a thread of its own: heartbeats go on, and a stop ends it.
function inThread<A, R>(work: (argument: A) => R, argument: A, signal: AbortSignal): Promise<R> {
  const code = `const {parentPort, workerData} = require("node:worker_threads"); parentPort.postMessage((${work})(workerData))`
  const thread = new Thread(code, {eval: true, workerData: argument})
  return new Promise<R>((resolve, fail) => {
    thread.once("message", resolve).once("error", fail)
    signal.addEventListener("abort", () => { void thread.terminate(); fail(signal.reason) })
  })
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, fail) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener("abort", () => { clearTimeout(timer); fail(signal.reason) })
  })
}

// Handlers: here is what you replace. These are the tasks that `tocsin conformance` asks for.
type Handler = (payload: any, attempt: Attempt) => Promise<Json | void> | Json | void
const handlers: Record<string, Handler> = {
  "conformance.echo": ({value}) => value,
  "conformance.attempt": (_, {claim}) => ({attempt: claim.attempt, idempotency_key: claim.idempotency_key}),
  "conformance.fail": ({message}) => { throw new Error(message) },
  "conformance.reject": ({message}) => { throw reject(message) },
  "conformance.again": ({wait_ms}) => { throw retryAfter(wait_ms, "try again") },
  "conformance.postpone": ({wait_ms, reason}) => { throw postpone(wait_ms, reason) },
  "conformance.skip": ({reason}) => { throw skip(reason) },
  "conformance.sleep": async ({seconds}, {signal}) => { await sleep(seconds * 1000, signal); return "slept" },
  "conformance.spin": ({seconds}, {signal}) =>
    inThread((long: number) => { const until = Date.now() + long * 1000; while (Date.now() < until) {} }, seconds, signal),
  "conformance.progress": async ({share, note}, attempt) => { attempt.progress(share, note); await sleep(3_600_000, attempt.signal) },
  "conformance.log": async ({lines, seconds}, attempt) => {
    for (let number = 1; number <= lines; number++) {
      attempt.log(`line ${number}`, {number})
      if (seconds > 0) await sleep((seconds * 1000) / lines, attempt.signal)
    }
  },
  "conformance.large": ({bytes}) => "x".repeat(bytes),
  "conformance.crash": () => process.exit(137),
}

let signals = 0
for (const name of ["SIGTERM", "SIGINT"] as const) process.on(name, () => { signals++; drain() })
setInterval(watch, 50)
try {
  await register()
} catch (error) {
  console.error(`cannot register: ${(error as Error).message}`)
  process.exit(1)
}
const claiming = claimLoop()
void settleLoop()
void beatLoop()
while (!draining) await pause(50)
await finish(claiming)
