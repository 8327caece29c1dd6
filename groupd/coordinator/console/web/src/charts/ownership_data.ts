// Who had which partition when, and what stands at a place of that picture in words.
import { duration, place, UNKNOWN } from "../format.ts";
import type { TableData } from "./as_table.tsx";
import type { Life } from "./lanes_data.ts";
import type { TimeRange } from "./timeline.ts";
import type { TipRow } from "./tip.tsx";
import { utc } from "./utc.ts";

type Place = [topic: string, partition: number];
// `place` and `life` are positions in the lists. null: until the end.
type Holding = [place: number, life: number, since: number, until: number | null];

export interface OwnershipData {
  places: Place[];
  lanes: string[];
  lives: Life[];
  holdings: Holding[];
}

const ROWS_MAX = 500;

export function placeName([topic, partition]: Place): string {
  return place(topic, partition);
}

export function ownershipTip(data: OwnershipData, whole: TimeRange, ms: number, row: number): TipRow[] {
  const found = data.places[row];
  if (found === undefined) return [];
  const name = placeName(found);
  const held = data.holdings.find(([at, , since, until]) => at === row && since <= ms && ms < (until ?? whole.to + 1));
  if (held === undefined) return [{ name, value: "read by nobody", tone: "strong" }];
  const [, owner, since, until] = held;
  const life = data.lives[owner];
  return [
    { name, value: "", tone: "strong" },
    { name: "read by", value: data.lanes[life?.lane ?? -1] ?? "" },
    { name: "member id", value: life?.id ?? "" },
    { name: "since", value: utc(since) },
    { name: "for", value: duration((until ?? whole.to) - since) + (until === null ? " and on" : "") },
  ];
}

export function ownershipTable(data: OwnershipData, whole: TimeRange): TableData {
  const rows = data.holdings.slice(0, ROWS_MAX).map(([at, owner, since, until]) => [
    data.places[at] === undefined ? "" : placeName(data.places[at]),
    data.lanes[data.lives[owner]?.lane ?? -1] ?? "",
    utc(since),
    until === null ? UNKNOWN : utc(until),
    duration((until ?? whole.to) - since),
  ]);
  return {
    head: ["Partition", "Read by", "Since", "Until", "For"],
    rows,
    more: data.holdings.length - rows.length,
  };
}
