// Who has moved the offsets of a group lately, read from the log of the group's shard.
import type { JSX } from "preact";
import { get, groupPath, statusOf } from "../data/api.ts";
import type { OffsetMove, OffsetMoves } from "../data/types.ts";
import { exact, short } from "../format.ts";
import { useLoad } from "../ui/load.ts";
import { partitionColumn } from "../ui/partition.tsx";
import { Card, Notice } from "../ui/parts.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { At } from "../ui/words.tsx";

// `round`: another number reads the log again. `onBefore` is asked for the time before a move.
export function LastMoves(props: { groupId: string; round: number; onBefore(ms: number): void }): JSX.Element {
  const found = useLoad<OffsetMoves>(`${groupPath(props.groupId, "/moves")}#${props.round}`, load);
  const moves = found.value?.moves ?? [];
  const part = found.value !== null && !found.value.complete;
  return (
    <Card id="moves" title="Who moved them" aside={part ? "from the last part of the log" : "from the log"}>
      {found.error !== null && <Notice tone="error">{found.error}</Notice>}
      {found.value === null ? (
        found.loading && <p class="loading">Reading the log …</p>
      ) : (
        <Table
          label="Who moved them"
          columns={[...COLUMNS, wayBack(props.onBefore)]}
          rows={moves}
          rowKey={(row) => `${moves.indexOf(row)}`}
          empty="The log has no move of this group's offsets, except that members read on."
        />
      )}
    </Card>
  );
}

const BUSY_TRIES = 3;

// Few may have a log read at a time, so one who comes while it is read for others asks again.
async function load(key: string, signal: AbortSignal): Promise<OffsetMoves> {
  for (let tries = 1; ; tries++) {
    try {
      return await get<OffsetMoves>(key.slice(0, key.indexOf("#")), signal);
    } catch (error) {
      if (statusOf(error) !== 503 || tries > BUSY_TRIES) throw error;
      await new Promise((goOn) => setTimeout(goOn, tries * 1000));
    }
  }
}

const AUTHORS: Record<string, string> = {
  "admin/simple": "a tool; the group had no members",
  unknown: "a member; the log does not tell which",
  coordinator: "the coordinator, for retention",
};

// "owner 3k9… client=billing-1/10.0.0.7 epoch=3" as "billing-1 at 10.0.0.7".
export function authorOf(by: string): string {
  const owner = /^owner \S+ client=(.*)\/(\S+)/.exec(by);
  if (owner !== null) return `${owner[1]} at ${owner[2]}`;
  return AUTHORS[by] ?? by;
}

const COLUMNS: Column<OffsetMove>[] = [
  { key: "time", title: "When", width: 110, cell: (row) => <At ms={row.timestamp_ms} />, sort: (row) => row.timestamp_ms, first: "descending" },
  { ...partitionColumn(150), grow: false },
  { key: "kind", title: "Kind", width: 84, cell: (row) => row.kind, sort: (row) => row.kind },
  offset("from", "From"),
  offset("to", "To"),
  { key: "moved", title: "Moved", width: 80, numeric: true, cell: (row) => moved(row), sort: (row) => distance(row) },
  {
    key: "by",
    title: "By",
    width: 260,
    grow: true,
    cell: (row) => (
      <span class="cut" title={row.by}>
        {authorOf(row.by)}
      </span>
    ),
    sort: (row) => row.by,
  },
];

function wayBack(onBefore: (ms: number) => void): Column<OffsetMove> {
  return {
    key: "back",
    title: "Undo",
    width: 170,
    cell: (row) =>
      row.from !== null && (
        <button type="button" class="quiet" onClick={() => onBefore(row.timestamp_ms)}>
          Restore to before
        </button>
      ),
  };
}

function offset(key: "from" | "to", title: string): Column<OffsetMove> {
  return { key, title, width: 106, numeric: true, cell: (row) => (row[key] === null ? "none" : exact(row[key])), sort: (row) => row[key] };
}

function distance(row: OffsetMove): number | null {
  return row.from === null || row.to === null ? null : row.to - row.from;
}

function moved(row: OffsetMove): string {
  const by = distance(row);
  if (by === null) return "–";
  return by > 0 ? `+${short(by)}` : short(by);
}
