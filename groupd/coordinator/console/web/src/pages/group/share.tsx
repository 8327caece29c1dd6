// The records of a share group: how far each partition is, who holds which records and until when, how often they were
// delivered, and why some were given up.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Sparkline } from "../../charts/sparkline.tsx";
import type { ShareEvent, SharePage, SharePartition, ShareRange } from "../../data/types.ts";
import { exact, place, plural } from "../../format.ts";
import { nameOf, partitionColumn } from "../../ui/partition.tsx";
import { Card } from "../../ui/parts.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Ago, Countdown, Name, Num } from "../../ui/words.tsx";
import { type GroupView, labelOf, until } from "./model.ts";

interface Props {
  view: GroupView;
  labels: ReadonlyMap<string, string>;
}

// A range of records, with its partition.
type Placed = ShareRange & { topic: string; partition: number };
type Outcome = ShareEvent & { at: number };

export function Share(props: Props): JSX.Element | null {
  const { share } = props.view.snapshot;
  if (share === undefined) return null;
  return (
    <>
      <Records {...props} share={share} />
      <Positions share={share} />
      <Outcomes {...props} share={share} />
    </>
  );
}

export function rangesOf(share: SharePage): Placed[] {
  return share.partitions.flatMap(({ topic, partition, in_flight }) => in_flight.map((one) => ({ ...one, topic, partition })));
}

// Delivered before, and not finished.
export function isPoison(one: ShareRange): boolean {
  return one.delivery_count > 1 && (one.state === "available" || one.state === "acquired");
}

export function offsetsText(one: { first_offset: number; last_offset: number }): string {
  return one.first_offset === one.last_offset ? exact(one.first_offset) : `${exact(one.first_offset)}–${exact(one.last_offset)}`;
}

function recordColumn<R extends { topic: string; partition: number; first_offset: number; last_offset: number }>(): Column<R> {
  return {
    key: "records",
    title: "Records",
    width: 220,
    grow: true,
    cell: (row) => <Name text={`${place(row.topic, row.partition)}: ${offsetsText(row)}`} />,
    sort: (row) => row.first_offset,
  };
}

function Records(props: Props & { share: SharePage }): JSX.Element {
  const { share, view, labels } = props;
  const rows = useMemo(() => rangesOf(share), [share]);
  const columns = useMemo(() => rangeColumns(view, labels, share.delivery_count_limit), [view, labels, share]);
  const poison = rows.filter(isPoison).length;
  const more = share.partitions.reduce((sum, one) => sum + one.left_out, 0);
  return (
    <Card
      id="records"
      title="Who holds which records"
      aside={poison > 0 ? `${plural(poison, "range")} delivered again and again` : exact(rows.length)}
      wide
    >
      <Table
        label="Who holds which records"
        columns={columns}
        rows={rows}
        rowKey={(row) => `${nameOf(row)}@${row.first_offset}`}
        initial={{ key: "count", direction: "descending" }}
        empty="No records are under way at this node."
      />
      {more > 0 && <p class="soft">{exact(more)} more ranges are under way.</p>}
    </Card>
  );
}

function rangeColumns(view: GroupView, labels: ReadonlyMap<string, string>, limit: number): Column<Placed>[] {
  return [
    recordColumn(),
    {
      key: "count",
      title: "Delivered",
      hint: "How often, of the most deliveries that the group allows",
      width: 112,
      numeric: true,
      cell: (row) => <span class={isPoison(row) ? "soon" : ""}>{`${row.delivery_count} of ${limit}`}</span>,
      sort: (row) => row.delivery_count,
      first: "descending",
    },
    {
      key: "state",
      title: "State",
      width: 190,
      cell: (row) => (
        <>
          {row.why === null ? row.state : `${row.state}: ${row.why}`}
          {row.write_pending && <span class="pill">being written</span>}
        </>
      ),
      sort: (row) => row.state,
    },
    {
      key: "member",
      title: "Held by",
      width: 180,
      cell: (row) => <Name text={labelOf(labels, row.member_id)} most={26} class={row.member_id === null ? "soft" : ""} />,
      sort: (row) => (row.member_id === null ? null : labelOf(labels, row.member_id)),
    },
    {
      key: "since",
      title: "Since",
      width: 120,
      cell: (row) => (row.held_ms === null ? "–" : <Ago ms={view.receivedAt + view.skew - row.held_ms} skew={view.skew} />),
      sort: (row) => row.held_ms,
      first: "descending",
    },
    {
      key: "left",
      title: "Lock",
      width: 120,
      cell: (row) => (row.lock_left_ms === null ? "–" : <Countdown until={until(view, row.lock_left_ms)} />),
      sort: (row) => row.lock_left_ms,
    },
  ];
}

function Positions(props: { share: SharePage }): JSX.Element {
  const { partitions } = props.share;
  return (
    <Card id="share-partitions" title="Start offsets" aside="all records before them are finished" wide>
      <Table
        label="Start offsets"
        columns={POSITION_COLUMNS}
        rows={partitions}
        rowKey={nameOf}
        initial={{ key: "partition", direction: "ascending" }}
        empty="No record of the group was acknowledged yet."
      />
    </Card>
  );
}

type Counted = "locked" | "waiting" | "finished" | "lock_timeouts";

function counted(key: Counted, title: string, hint: string, width: number): Column<SharePartition> {
  return { key, title, hint, width, numeric: true, cell: (row) => <Num value={row[key]} unit="records" />, sort: (row) => row[key], first: "descending" };
}

const POSITION_COLUMNS: Column<SharePartition>[] = [
  partitionColumn(180, (name) => <Name text={name} />),
  {
    key: "start",
    title: "Start offset",
    width: 120,
    numeric: true,
    cell: (row) => (row.start_offset === null ? "–" : exact(row.start_offset)),
    sort: (row) => row.start_offset,
  },
  {
    key: "hour",
    title: "Last hour",
    width: 124,
    cell: (row) => <Sparkline values={row.starts} what={`The start offset of ${nameOf(row)}`} none="not known" fromLeast />,
  },
  counted("locked", "Held", "Records that a member has and has not acknowledged", 84),
  counted("waiting", "To deliver again", "Records that were released, or whose lock timed out", 138),
  counted("finished", "Finished", "Records behind the start offset that are finished already", 100),
  counted("lock_timeouts", "Lock timeouts", "Records whose lock timed out since this node leads the partition", 124),
];

function Outcomes(props: Props & { share: SharePage }): JSX.Element {
  const { share, view } = props;
  // The same may happen to a record several times in a millisecond.
  const rows = useMemo(() => share.events.map((one, at) => ({ ...one, at })).reverse(), [share]);
  const columns = useMemo(() => eventColumns(view.skew), [view.skew]);
  const up = rows.filter((one) => one.what === "archived").length;
  return (
    <Card id="outcomes" title="What became of records" aside={up > 0 ? `${exact(up)} given up` : exact(rows.length)} wide>
      <Table
        label="What became of records"
        columns={columns}
        rows={rows}
        rowKey={(row) => String(row.at)}
        empty="Nothing was acknowledged at this node lately."
      />
    </Card>
  );
}

function eventColumns(skew: number): Column<Outcome>[] {
  return [
    recordColumn(),
    {
      key: "what",
      title: "Outcome",
      width: 220,
      cell: (row) => (row.what === "archived" ? <span class="soon">given up: {row.why}</span> : row.what),
      sort: (row) => `${row.what} ${row.why}`,
    },
    {
      key: "count",
      title: "Delivered",
      hint: "How often the records had been delivered",
      width: 104,
      numeric: true,
      cell: (row) => row.delivery_count,
      sort: (row) => row.delivery_count,
      first: "descending",
    },
    {
      key: "when",
      title: "When",
      width: 140,
      cell: (row) => <Ago ms={row.timestamp_ms} skew={skew} />,
      sort: (row) => row.timestamp_ms,
      first: "descending",
    },
  ];
}
