// The list of all groups: a snapshot, then changes of it.
import { skewFrom } from "./clock.ts";
import { NOT_KNOWN } from "../format.ts";
import type { GroupRow, GroupsChanges, GroupsLacks, GroupsSnapshot, NodeName } from "./types.ts";

export interface GroupList extends GroupsLacks {
  node: NodeName | null;
  // Server's clock less this machine's.
  skew: number;
  byId: Map<string, GroupRow>;
  rows: GroupRow[];
}

export function foldGroups(before: GroupList | null, name: string, data: unknown): GroupList | null {
  if (name === "snapshot") {
    const { rows, node, now_ms, more, missing, other_nodes } = data as GroupsSnapshot;
    const byId = new Map(rows.map((one) => [one.group_id, one]));
    return { node, skew: skewFrom(now_ms, before?.skew), byId, rows, more, missing, other_nodes };
  }
  if (name !== "changes" || before === null) return null;
  const { rows, gone, now_ms, more, missing, other_nodes } = data as GroupsChanges;
  const { byId, node } = before;
  for (const id of gone) byId.delete(id);
  for (const row of rows) byId.set(row.group_id, row);
  return { node, skew: skewFrom(now_ms, before.skew), byId, rows: [...byId.values()], more, missing, other_nodes };
}

export interface Filter {
  text: string;
  judgements: ReadonlySet<string>;
  types: ReadonlySet<string>;
  states: ReadonlySet<string>;
}

export const NO_FILTER: Filter = { text: "", judgements: new Set(), types: new Set(), states: new Set() };

export function judgementOf(row: GroupRow): string {
  return row.judgement ?? NOT_KNOWN;
}

export function matching(rows: readonly GroupRow[], filter: Filter): GroupRow[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter((one) => one !== "");
  const allows = (chosen: ReadonlySet<string>, value: string) => chosen.size === 0 || chosen.has(value);
  return rows.filter(
    (row) =>
      allows(filter.judgements, judgementOf(row)) &&
      allows(filter.types, row.type) &&
      allows(filter.states, row.state) &&
      words.every((word) => row.group_id.toLowerCase().includes(word)),
  );
}

export interface Summary {
  judgements: Map<string, number>;
  types: Map<string, number>;
  states: Map<string, number>;
  lag: number | null;
  members: number;
}

export function summarize(rows: readonly GroupRow[]): Summary {
  const summary: Summary = { judgements: new Map(), types: new Map(), states: new Map(), lag: null, members: 0 };
  const add = (into: Map<string, number>, key: string) => into.set(key, (into.get(key) ?? 0) + 1);
  for (const row of rows) {
    add(summary.judgements, judgementOf(row));
    add(summary.types, row.type);
    add(summary.states, row.state);
    summary.members += row.members;
    if (row.lag !== null) summary.lag = (summary.lag ?? 0) + row.lag;
  }
  return summary;
}
