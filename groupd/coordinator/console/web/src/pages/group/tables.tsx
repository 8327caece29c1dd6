// The members of a group and its partitions, with what is known of their offsets.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Member, MemberOffsets, PartitionOffsets } from "../../data/types.ts";
import { count, exact, placesText, plural } from "../../format.ts";
import { nameOf, partitionColumn } from "../../ui/partition.tsx";
import { Card } from "../../ui/parts.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Ago, Badge, JUDGEMENTS, Name, Num, Seconds } from "../../ui/words.tsx";
import { type GroupView, labelOf } from "./model.ts";

interface Props {
  view: GroupView;
  labels: ReadonlyMap<string, string>;
}

interface MemberRow {
  member: Member;
  offsets: MemberOffsets | null;
}

export function Members(props: Props): JSX.Element {
  const { view, labels } = props;
  const { group, offsets, lag } = view.snapshot;
  const { silent, silent_count } = lag;
  const rows = useMemo(() => {
    const byId = new Map(offsets.members.map((one) => [one.member_id, one]));
    return group.members.map((member) => ({ member, offsets: byId.get(member.member_id) ?? null }));
  }, [view.snapshot]);
  const columns = useMemo(() => {
    return memberColumns(labels, view.skew, new Set(silent.map((one) => one.member_id)));
  }, [view.snapshot, labels, view.skew]);
  return (
    <Card
      id="members"
      title="Members"
      aside={silent_count > 0 ? `${plural(silent_count, "member")} with lag without a commit` : exact(rows.length)}
    >
      <Table
        label="Members"
        columns={columns}
        rows={rows}
        rowKey={(row) => row.member.member_id}
        initial={{ key: "member", direction: "ascending" }}
        empty="The group has no members."
      />
    </Card>
  );
}

function memberColumns(labels: ReadonlyMap<string, string>, skew: number, silent: ReadonlySet<string>): Column<MemberRow>[] {
  return [
    {
      key: "member",
      title: "Member",
      width: 210,
      grow: true,
      cell: ({ member }) => <span title={member.member_id}>{labelOf(labels, member.member_id)}</span>,
      sort: ({ member }) => labelOf(labels, member.member_id),
    },
    {
      key: "host",
      title: "Host",
      width: 140,
      cell: ({ member }) => <Name text={member.client_host} most={24} />,
      sort: ({ member }) => member.client_host,
    },
    { key: "state", title: "State", width: 216, cell: ({ member }) => stateOf(member), sort: ({ member }) => stateOf(member) },
    {
      key: "epoch",
      title: "Epoch",
      width: 76,
      numeric: true,
      cell: ({ member }) => member.member_epoch ?? "–",
      sort: ({ member }) => member.member_epoch,
    },
    {
      key: "owned",
      title: "Partitions",
      width: 104,
      numeric: true,
      cell: ({ member }) => <span title={placesText(member.owned)}>{exact(count(member.owned))}</span>,
      sort: ({ member }) => count(member.owned),
    },
    {
      key: "lag",
      title: "Lag",
      width: 84,
      numeric: true,
      cell: ({ offsets }) => <Num value={offsets?.lag} unit="records" />,
      sort: ({ offsets }) => offsets?.lag,
    },
    {
      key: "commit",
      title: "Last commit",
      width: 140,
      cell: ({ member, offsets }) => (
        <span class={silent.has(member.member_id) ? "soon" : ""}>
          <Ago ms={offsets?.last_commit_ms} skew={skew} />
        </span>
      ),
      sort: ({ offsets }) => offsets?.last_commit_ms,
      first: "descending",
    },
  ];
}

function stateOf(member: Member): string {
  if (member.state !== undefined) return member.state;
  if (member.join_parked) return "JoinGroup parked";
  return member.sync_parked ? "SyncGroup parked" : "in the group";
}

export function Partitions(props: Props): JSX.Element {
  const { view, labels } = props;
  const rows = view.snapshot.offsets.partitions;
  const columns = useMemo(() => partitionColumns(labels, view.skew), [labels, view.skew]);
  return (
    <Card id="partitions" title="Partitions" aside={exact(rows.length)} wide>
      <Table
        label="Partitions"
        columns={columns}
        rows={rows}
        rowKey={nameOf}
        initial={{ key: "lag", direction: "descending" }}
        empty="No member has a partition, and no offset is committed."
      />
    </Card>
  );
}

function partitionColumns(labels: ReadonlyMap<string, string>, skew: number): Column<PartitionOffsets>[] {
  const number = (key: "committed_offset" | "end_offset" | "lag", title: string): Column<PartitionOffsets> => ({
    key,
    title,
    width: key === "lag" ? 84 : 124,
    numeric: true,
    cell: (row) => (key === "lag" ? <Num value={row[key]} unit="records" /> : row[key] === null ? "–" : exact(row[key])),
    sort: (row) => row[key],
  });
  return [
    partitionColumn(180),
    {
      key: "judgement",
      title: "Judgement",
      width: 134,
      cell: (row) => (row.committed_offset === null ? "–" : <Badge judgement={row.judgement} />),
      sort: (row) => (row.judgement ? JUDGEMENTS.indexOf(row.judgement) : null),
    },
    number("committed_offset", "Committed"),
    number("end_offset", "End"),
    number("lag", "Lag"),
    {
      key: "seconds",
      title: "Behind",
      width: 106,
      numeric: true,
      cell: (row) => <Seconds value={row.lag_seconds} lag={row.lag} />,
      sort: (row) => row.lag_seconds,
    },
    {
      key: "owner",
      title: "Read by",
      width: 200,
      cell: (row) => (
        <>
          <Name text={labelOf(labels, row.member_id)} most={26} class={row.member_id === null ? "soft" : ""} />
          {row.in_transaction && <span class="pill">open transaction</span>}
        </>
      ),
      sort: (row) => (row.member_id === null ? null : labelOf(labels, row.member_id)),
    },
    {
      key: "commit",
      title: "Last commit",
      width: 140,
      cell: (row) => <Ago ms={row.last_commit_ms} skew={skew} />,
      sort: (row) => row.last_commit_ms,
      first: "descending",
    },
  ];
}
