/** The processes of the fleet and who plans which shard: a tile per shard, coloured by owner. For operators. */
import { useData } from "../hooks.ts";
import { Mark, Time } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { count } from "../time.ts";
import type { Nodes, NodeView, Shards } from "../types.ts";

const COLOURS = 8;

export function Fleet() {
  const nodes = useData<Nodes>("/nodes");
  const shards = useData<Shards>("/shards");
  const owners = [
    ...new Set((shards.data?.items ?? []).map((shard) => shard.owner).filter((owner) => owner !== null)),
  ].sort((a, b) => a - b);
  const colour = (owner: number | null) => (owner === null ? "free" : `o${owners.indexOf(owner) % COLOURS}`);
  return (
    <>
      <h1>Workers & shards</h1>
      <section class="card list">
        <Part of={nodes}>
          {(data) => (
            <table>
              <thead>
                <tr>
                  <th>Node</th>
                  <th>Roles</th>
                  <th>Seen</th>
                  <th class="number">Shards</th>
                  <th class="number">Running</th>
                  <th class="number">Held</th>
                  <th>Busy</th>
                  <th>Version</th>
                </tr>
              </thead>
              <tbody>
                {data.items.map((node) => (
                  <Row key={node.id} node={node} colour={colour(node.id)} />
                ))}
              </tbody>
            </table>
          )}
        </Part>
      </section>
      <section class="card">
        <h2>Shards</h2>
        <p class="hint">
          A tile is a part of the jobs; its colour is the node that plans them, its number how often the shard
          changed hands.
        </p>
        <Part of={shards}>
          {(data) => (
            <div class="tiles-of-shards">
              {data.items.map((shard) => (
                <div
                  key={shard.shard}
                  class={`shard ${colour(shard.owner)}`}
                  title={`shard ${shard.shard}, ${shard.node ?? "nobody's"}, epoch ${shard.epoch}`}
                >
                  <small>{shard.shard}</small>
                  <b>{shard.epoch}</b>
                </div>
              ))}
            </div>
          )}
        </Part>
      </section>
    </>
  );
}

function Row({ node, colour }: { node: NodeView; colour: string }) {
  return (
    <tr class={node.alive ? "" : "gone"}>
      <td data-name="Node" class="name">
        <Mark state={node.alive ? "active" : "dead"} title={node.alive ? "alive" : "gone"} />
        {node.shards > 0 && <i class={`swatch ${colour}`} />}
        {node.name} <small>#{node.id}</small>
      </td>
      <td data-name="Roles">{node.roles.join(", ")}</td>
      <td data-name="Seen">
        <Time at={node.seen_at} far />
      </td>
      <td data-name="Shards" class="number">
        {node.shards}
      </td>
      <td data-name="Running" class="number">
        {node.running === null ? "–" : count(node.running)}
      </td>
      <td data-name="Held" class="number">
        {node.held === null ? "–" : count(node.held)}
      </td>
      <td data-name="Busy">
        {node.saturation === null ? (
          "–"
        ) : (
          <meter
            min={0}
            max={1}
            high={0.8}
            value={node.saturation}
            title={`${Math.round(node.saturation * 100)} %`}
          />
        )}
      </td>
      <td data-name="Version">{node.version}</td>
    </tr>
  );
}
