// How the daemon is: what it serves, what it waits for, which limits are near.
import type { JSX } from "preact";
import { useLive } from "../data/live.ts";
import type { ClusterNode, Health, Limit } from "../data/types.ts";
import { duration, exact, inUnits, plural, short } from "../format.ts";
import { Bar, Card, ConsoleLink, Notice, OutOfDate, Tile, Waiting } from "../ui/parts.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Name } from "../ui/words.tsx";

function fold(_before: Health | null, name: string, data: unknown): Health | null {
  return name === "snapshot" ? (data as Health) : null;
}

export function HealthPage(): JSX.Element {
  const live = useLive<Health>("live/health", fold);
  return (
    <div class="page health">
      <h1>Health</h1>
      <OutOfDate live={live} />
      {live.data === null ? <Waiting live={live} what="the state of the daemon" /> : <Sections health={live.data} />}
    </div>
  );
}

const NEAR = 0.8;
const WATCHED = 0.5;

function Sections(props: { health: Health }): JSX.Element {
  const { health } = props;
  const failed = health.shards["failed"] ?? 0;
  const near = health.limits.filter((one) => one.most > 0 && one.used / one.most >= NEAR);
  const kind = health.nodes.length === 0 ? "one node" : `one of ${plural(health.nodes.length, "node")}`;
  return (
    <>
      {health.not_ready !== null && <Notice tone="warning">Not ready: {health.not_ready}</Notice>}
      {failed > 0 && (
        <Notice tone="error">{plural(failed, "shard")} cannot be loaded: the groups there are not served.</Notice>
      )}
      {near.length > 0 && <Notice tone="warning">Near its limit: {near.map((one) => one.name).join(", ")}.</Notice>}
      <section class="headline" aria-label="How the daemon is">
        <Tile label="Running for" note={kind}>
          {inUnits(Math.floor(health.uptime_s))}
        </Tile>
        <Tile label="Version" note={health.store}>
          {health.version}
        </Tile>
        <Tile label="Shards" note={<Shards shards={health.shards} />}>
          {exact(health.shards["active"] ?? 0)} active
        </Tile>
        <Tile label="Event loop" note={`the longest turn of the last minute; ${plural(health.loop.stalls, "stall")} so far`}>
          {health.loop.longest_ms_last_minute === null ? "–" : duration(health.loop.longest_ms_last_minute)}
        </Tile>
        <Tile label="Writer" note={`for a flush, ${duration(health.writer.flush_ms.p99)} for the slowest of 100; ${exact(health.writer.waiting)} waiting`}>
          {duration(health.writer.flush_ms.p50)}
        </Tile>
        <Tile
          label="Connections"
          note={health.connections.allowed === null ? "no limit" : `of ${exact(health.connections.allowed)} allowed`}
        >
          {exact(health.connections.open)}
        </Tile>
      </section>
      <div class="cards">
        <Limits limits={health.limits} />
        <Refusals refusals={health.refusals} />
        {health.nodes.length > 0 && <Nodes nodes={health.nodes} />}
      </div>
    </>
  );
}

function Shards(props: { shards: Record<string, number> }): JSX.Element {
  const others = Object.entries(props.shards).filter(([state, many]) => state !== "active" && many > 0);
  if (others.length === 0) return <>all of them</>;
  return <b class="soon">{others.map(([state, many]) => `${exact(many)} ${state}`).join(", ")}</b>;
}

function Limits(props: { limits: Limit[] }): JSX.Element {
  const share = (one: Limit) => (one.most > 0 ? one.used / one.most : 0);
  const ordered = [...props.limits].sort((a, b) => share(b) - share(a));
  const tone = (one: Limit) => (share(one) >= NEAR ? "high" : share(one) >= WATCHED ? "middle" : "");
  return (
    <Card id="limits" title="Limits" aside="the nearest first">
      {ordered.length === 0 && <p class="soft">No limit is set.</p>}
      <ul class="limits">
        {ordered.map((one) => {
          const text = `${exact(one.used)} of ${exact(one.most)}`;
          return (
            <li key={one.name}>
              <span>{one.name}</span>
              <Bar share={share(one)} label={`${one.name}: ${text}`} tone={tone(one)} />
              <span class="soft number" title={text}>
                {short(one.used)} of {short(one.most)}
              </span>
              <b class={`number ${tone(one) === "high" ? "soon" : ""}`}>{percent(share(one))}</b>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

function percent(share: number): string {
  return share > 0 && share < 0.01 ? "< 1 %" : `${Math.floor(share * 100)} %`;
}

function Refusals(props: { refusals: Health["refusals"] }): JSX.Element {
  const { refusals } = props;
  return (
    <Card id="refusals" title="Refusals" aside="since the start">
      {refusals.length === 0 ? (
        <p class="soft">Nothing has been refused.</p>
      ) : (
        <ul class="facts-list">
          {refusals.map((one) => (
            <li key={one.what}>
              <span>{one.what}</span>
              <b class="number">{one.count === 1 ? "once" : `${exact(one.count)} times`}</b>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Nodes(props: { nodes: ClusterNode[] }): JSX.Element {
  const kinds = [...new Set(props.nodes.flatMap((one) => Object.keys(one.units ?? {})))].sort();
  const columns: Column<ClusterNode>[] = [
    { key: "node", title: "Node", width: 80, grow: true, cell: (row) => (
        <ConsoleLink admin={row.admin} hash="#/health" plain>
          {String(row.node)}
        </ConsoleLink>
      ), sort: (row) => Number(row.node) },
    { key: "state", title: "State", width: 110, cell: (row) => row.state, sort: (row) => row.state },
    { key: "address", title: "Address", width: 190, cell: (row) => <Name text={row.address ?? "–"} />, sort: (row) => row.address },
    { key: "rack", title: "Rack", width: 90, cell: (row) => row.rack ?? "–", sort: (row) => row.rack },
    { key: "version", title: "Version", width: 100, cell: (row) => row.version ?? "–", sort: (row) => row.version },
    ...kinds.map(
      (kind): Column<ClusterNode> => ({
        key: `unit-${kind}`,
        title: kind,
        width: 116,
        numeric: true,
        cell: (row) => exact(row.units?.[kind] ?? 0),
        sort: (row) => row.units?.[kind] ?? 0,
      }),
    ),
    {
      key: "lease",
      title: "Lease left",
      width: 100,
      numeric: true,
      cell: (row) => duration(row.lease_left_ms),
      sort: (row) => row.lease_left_ms,
    },
  ];
  return (
    <Card id="nodes" title="Nodes" aside={exact(props.nodes.length)} wide>
      <Table
        label="Nodes"
        columns={columns}
        rows={props.nodes}
        rowKey={(row) => String(row.node)}
        initial={{ key: "node", direction: "ascending" }}
        empty="No nodes."
      />
    </Card>
  );
}
