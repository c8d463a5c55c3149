/** Act on many: how many and which, what is not possible, in which steps, at which pace, and when to stop by itself. */
import { useState } from "preact/hooks";
import { post } from "../api.ts";
import { go } from "../router.ts";
import { count, distance } from "../time.ts";
import type { Do, Of, OperationAnswer } from "../types.ts";
import { asCli, asCurl, Copy } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";
import { useDryRun } from "./dry_run.ts";
import { Trouble } from "./notices.tsx";

/** What is acted on: everything under some filters of a listing, or single ones. */
export type Target = { where: Record<string, unknown> } | { ids: string[] };

interface Props {
  does: Do;
  of: Of;
  target: Target;
  /** What it is, in words: `of "answered 503"`. */
  words: string;
  close: () => void;
}

const FIRING: Do[] = ["run", "retry", "rerun"];
const HARD: Do[] = ["delete", "discard", "cancel", "cancel_queued"];
const VERBS: Record<Do, string> = {
  pause: "Pause",
  resume: "Resume",
  cancel: "Cancel",
  cancel_queued: "Cancel what is queued of",
  delete: "Delete",
  run: "Run now",
  retry: "Replay",
  rerun: "Run again",
  discard: "Discard",
};
/** From how many on a deletion wants its number typed. */
const TYPED_FROM = 100;

export function Operate({ does, of, target, words, close }: Props) {
  const fires = FIRING.includes(does);
  const [reason, tell] = useState("");
  const [stepwise, step] = useState(fires);
  const [perSecond, pace] = useState(fires ? "20" : "");
  const [share, brake] = useState(fires ? "20" : "");
  const [typed, type] = useState("");
  const body = {
    do: does,
    of,
    ...target,
    ...(reason ? { reason } : {}),
    ...(Number(perSecond) ? { pace: `${Math.max(1, Math.round(1000 / Number(perSecond)))}ms` } : {}),
    ...(stepwise ? { steps: [1, 10] } : {}),
    ...(Number(share) ? { stop_at: { share: Number(share) / 100, of: 50 } } : {}),
  };
  const { dry, error } = useDryRun<OperationAnswer>("/operations", body);
  const mustType = dry !== null && dry.count > TYPED_FROM && (does === "delete" || does === "discard");
  const act = async () => {
    const made = await post<OperationAnswer>("/operations", body);
    if (made.operation) go(`/operations/${made.operation.id}`);
  };
  return (
    <Dialog
      title={`${VERBS[does]} ${words}`}
      action={dry ? `${VERBS[does].split(" ")[0]} ${count(dry.count, dry.capped)}` : VERBS[does]}
      danger={HARD.includes(does)}
      wide
      close={close}
      act={act}
      not={whyNot(dry, does) ?? (!dry || (mustType && typed !== String(dry.count)))}
    >
      {error ? <Trouble error={error} /> : <WouldAct dry={dry} of={of} />}
      <div class="fields">
        <label>
          Why? It is noted in the audit.
          <input value={reason} maxLength={500} onInput={(event) => tell(event.currentTarget.value)} />
        </label>
        <label>
          per second, at most
          <input
            inputMode="numeric"
            value={perSecond}
            placeholder="as fast as it goes"
            onInput={(event) => pace(event.currentTarget.value)}
          />
        </label>
        {fires && (
          <label>
            stop when this % of the last 50 fail
            <input
              inputMode="numeric"
              value={share}
              placeholder="never"
              onInput={(event) => brake(event.currentTarget.value)}
            />
          </label>
        )}
      </div>
      {fires && (
        <label class="check">
          <input type="checkbox" checked={stepwise} onChange={() => step(!stepwise)} />
          <span>
            in steps: 1 → 10 → all <small>a step that fails holds the rest</small>
          </span>
        </label>
      )}
      {mustType && (
        <label>
          Type {dry.count} to go on
          <input value={typed} onInput={(event) => type(event.currentTarget.value)} />
        </label>
      )}
      <Copy
        curl={asCurl("POST", "/operations", body)}
        cli={asCli("operations", "create", ...optionsOf(body))}
      />
    </Dialog>
  );
}

/** Why there is nothing to do, if the dry run says so. */
function whyNot(dry: OperationAnswer | null, does: Do): string | null {
  if (!dry) return null;
  if (!dry.count) return "Nothing matches any more.";
  const cannot = dry.cannot.reduce((sum, refusal) => sum + refusal.count, 0);
  return cannot < dry.count || dry.capped
    ? null
    : `None of them can: ${VERBS[does].toLowerCase()} is not possible.`;
}

function WouldAct({ dry, of }: { dry: OperationAnswer | null; of: Of }) {
  if (!dry) return <p>Looking at what matches …</p>;
  const names = dry.sample.map((thing) => thing.name ?? thing.id);
  return (
    <div class="consequence">
      <b>{count(dry.count, dry.capped)}</b> {of.replace("_", " ")} match
      {dry.oldest_at && `, the oldest fired ${distance(Date.parse(dry.oldest_at))}`}
      {names.length > 0 && (
        <small class="break">
          {" "}
          ({[...new Set(names)].slice(0, 10).join(", ")}
          {dry.count > names.length ? " …" : ""})
        </small>
      )}
      {dry.cannot.map((refusal) => (
        <p key={refusal.reason} class="hint">
          {count(refusal.count)} cannot: {refusal.reason}
        </p>
      ))}
    </div>
  );
}

/** The same, as options of `tocsin operations create`. */
function optionsOf(body: Record<string, unknown>): string[] {
  const { where, ids, reason, pace, steps, stop_at } = body as {
    where?: Record<string, unknown>;
    ids?: string[];
    reason?: string;
    pace?: string;
    steps?: number[];
    stop_at?: { share: number; of: number };
  };
  const filters = Object.entries(where ?? {}).flatMap(([name, value]) => [
    "--where",
    `${name}=${String(value)}`,
  ]);
  return [
    String(body.do),
    String(body.of),
    ...(where && !filters.length ? ["--all"] : filters),
    ...(ids ?? []).flatMap((id) => ["--id", id]),
    ...(reason ? ["--reason", reason] : []),
    ...(pace ? ["--pace", pace] : []),
    ...(steps ?? []).flatMap((size) => ["--step", String(size)]),
    ...(stop_at ? ["--stop-share", String(stop_at.share), "--stop-of", String(stop_at.of)] : []),
  ];
}
