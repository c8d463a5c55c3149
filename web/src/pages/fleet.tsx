/** The processes of the fleet and who plans which shard. A node that is lost is seen losing its tiles. For operators. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type Handover, handovers } from "../handovers.ts";
import { useData } from "../hooks.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Mark, Time } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { clock, count, duration, now, tick } from "../time.ts";
import type { Nodes, NodeView, Shard, Shards } from "../types.ts";

const COLOURS = 8;
const KEPT = 12;
const LOOK_MS = 1000;
/** How long a lease is taken for: only the share that is left is drawn. */
const LEASE_MS = 15_000;

export function Fleet() {
  const nodes = useData<Nodes>("/nodes", true, LOOK_MS);
  const shards = useData<Shards>("/shards", true, LOOK_MS);
  const events = useHandovers(shards.data?.items);
  const owners = [...new Set((shards.data?.items ?? []).map((shard) => shard.owner))]
    .filter((owner) => owner !== null)
    .sort((a, b) => a - b);
  const colour = (owner: number | null) => (owner === null ? "free" : `o${owners.indexOf(owner) % COLOURS}`);
  return (
    <>
      <h1>Workers & shards</h1>
      <section class="card list">
        <Part of={nodes}>
          {(data) => (
            <Table
              label="Nodes"
              rows={data.items}
              columns={columns(colour)}
              id={(node) => String(node.id)}
              pale={(node) => !node.alive}
            />
          )}
        </Part>
      </section>
      <section class="card">
        <div class="head wrap">
          <h2>Shards</h2>
          <p class="hint">
            A tile is a part of the jobs: colour = who plans it, number = epoch, line = rest of the lease.
          </p>
        </div>
        <Part of={shards}>
          {(data) => (
            <div class="tiles-of-shards">
              {data.items.map((shard) => (
                <Tile key={shard.shard} shard={shard} colour={colour(shard.owner)} />
              ))}
            </div>
          )}
        </Part>
      </section>
      <section class="card">
        <h2>Since you look</h2>
        {events.length ? (
          <ul class="lines strip" aria-live="polite">
            {events.map((event) => (
              <li key={event.at + event.from}>
                <time>{clock(event.at)}</time> {event.from} lost {event.shards} →{" "}
                {event.to.map(([name, number]) => `${name} ${number}`).join(", ")}
                {event.rose && " (epoch +1)"}
              </li>
            ))}
          </ul>
        ) : (
          <p class="calm">
            <Mark state="succeeded" /> No shard has changed hands.
          </p>
        )}
      </section>
      <Copy curl={asCurl("GET", "/shards")} cli={asCli("shards")} />
    </>
  );
}

/** What changed between each look and the one before. */
function useHandovers(shards: Shard[] | undefined): Handover[] {
  const before = useRef<Shard[] | null>(null);
  const [events, tell] = useState<Handover[]>([]);
  useEffect(() => {
    if (!shards) return;
    const fresh = before.current ? handovers(before.current, shards, now()) : [];
    before.current = shards;
    if (fresh.length) tell((told) => [...fresh, ...told].slice(0, KEPT));
  }, [shards]);
  return events;
}

function Tile({ shard, colour }: { shard: Shard; colour: string }) {
  tick.value;
  const left = shard.expires_at ? Math.max(0, Date.parse(shard.expires_at) - now()) : 0;
  const words = `shard ${shard.shard}, ${shard.node ?? "nobody's"}, epoch ${shard.epoch}, lease ends in ${duration(left)}`;
  return (
    <div class={`shard ${colour}`} title={words} data-owner={shard.owner ?? ""} data-epoch={shard.epoch}>
      <small>{shard.shard}</small>
      <b>{shard.epoch}</b>
      <progress max={LEASE_MS} value={Math.min(left, LEASE_MS)} aria-label={words} />
    </div>
  );
}

const columns = (colour: (owner: number | null) => string): Column<NodeView>[] => [
  {
    name: "Node",
    kind: "name",
    show: (node) => (
      <>
        <Mark state={node.alive ? "active" : "dead"} title={node.alive ? "alive" : "gone"} />
        {node.shards > 0 && <i class={`swatch ${colour(node.id)}`} />}
        {node.name} <small>#{node.id}</small>
      </>
    ),
  },
  { name: "Roles", show: (node) => node.roles.join(", ") },
  { name: "Seen", show: (node) => <Time at={node.seen_at} far /> },
  { name: "Started", show: (node) => <Time at={node.started_at} far /> },
  { name: "Shards", kind: "number", show: (node) => node.shards },
  { name: "Running", kind: "number", show: (node) => <Amount of={node.running} /> },
  { name: "Held", kind: "number", show: (node) => <Amount of={node.held} /> },
  { name: "Busy", show: (node) => <Busy share={node.saturation} /> },
  { name: "Version", show: (node) => node.version },
];

const Amount = ({ of }: { of: number | null }) => (
  <span class={of === null ? "none" : ""}>{of === null ? "–" : count(of)}</span>
);

function Busy({ share }: { share: number | null }) {
  if (share === null) return <span class="none">–</span>;
  const words = `${Math.round(share * 100)} %`;
  return (
    <span class="nowrap">
      <meter min={0} max={1} high={0.8} value={share} aria-label={words} /> <small>{words}</small>
    </span>
  );
}
