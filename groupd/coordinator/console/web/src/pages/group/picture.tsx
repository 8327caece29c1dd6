// Members and partitions as a picture, and the same as a table.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { OwnershipMatrix } from "../../charts/matrix.tsx";
import type { Member } from "../../data/types.ts";
import { count, exact, placesText } from "../../format.ts";
import { Card } from "../../ui/parts.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Name } from "../../ui/words.tsx";
import { type GroupView, labelOf, pictureOf } from "./model.ts";

export function Picture(props: { view: GroupView; labels: ReadonlyMap<string, string> }): JSX.Element {
  const { labels, view } = props;
  const matrix = useMemo(() => pictureOf(view.snapshot, labels), [view.snapshot, labels]);
  const [table, setTable] = useState(false);
  const { members } = view.snapshot.group;
  const columns = useMemo(() => columnsFor(labels), [labels]);
  const size = `${exact(members.length)} members, ${exact(matrix.columns.length)} partitions`;
  const swap = (
    <button type="button" class="quiet" aria-pressed={table} onClick={() => setTable(!table)}>
      As a table
    </button>
  );
  return (
    <Card id="picture" title="Who reads what" aside={swap}>
      {matrix.columns.length === 0 && <p class="soft">No member has a partition, and no offset is committed.</p>}
      {table ? (
        <Table
          label="Who reads what"
          columns={columns}
          rows={members}
          rowKey={(row) => row.member_id}
          empty="The group has no members."
        />
      ) : (
        matrix.columns.length > 0 && <OwnershipMatrix matrix={matrix} label={`Who reads what: ${size}`} />
      )}
    </Card>
  );
}

function columnsFor(labels: ReadonlyMap<string, string>): Column<Member>[] {
  const places = (title: string, key: "owned" | "pending_revocation" | "target"): Column<Member> => ({
    key,
    title,
    width: 240,
    cell: (row) => (
      <span class="cut" title={placesText(row[key])}>
        {placesText(row[key])}
      </span>
    ),
    sort: (row) => count(row[key]),
    first: "descending",
  });
  return [
    {
      key: "member",
      title: "Member",
      width: 200,
      grow: true,
      cell: (row) => <Name text={labelOf(labels, row.member_id)} />,
      sort: (row) => labelOf(labels, row.member_id),
    },
    places("Owned", "owned"),
    places("Being revoked", "pending_revocation"),
    places("Target", "target"),
  ];
}
