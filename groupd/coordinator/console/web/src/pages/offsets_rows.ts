// What the rows of a preview come to, and how they are sent back. Pure, so that it can be tested.
import type { OffsetChange } from "../data/types.ts";
import { exact } from "../format.ts";

export interface Sums {
  moved: number;
  kept: number;
  again: number;
  skipped: number;
  // Partitions: without an offset before, without a usable one afterwards, and of which not enough is known.
  first: number;
  anew: number;
  unknown: number;
  warnings: number;
}

export function sumsOf(rows: OffsetChange[]): Sums {
  const sums: Sums = { moved: 0, kept: 0, again: 0, skipped: 0, first: 0, anew: 0, unknown: 0, warnings: 0 };
  for (const row of rows) {
    if (row.warning) sums.warnings++;
    if (!row.writes) {
      sums.kept++;
      continue;
    }
    sums.moved++;
    if (row.starts_anew) sums.anew++;
    else if (row.from === null) sums.first++;
    else if (row.records === null) sums.unknown++;
    else if (row.records < 0) sums.again -= row.records;
    else sums.skipped += row.records;
  }
  return sums;
}

// What consumers will do, without the full stop.
export function sentence(sums: Sums): string {
  const parts: string[] = [];
  const add = (count: number, one: string, many: string) => {
    if (count > 0) parts.push(`${exact(count)} ${count === 1 ? one : many}`);
  };
  add(sums.again, "record is read again", "records are read again");
  add(sums.skipped, "record is skipped", "records are skipped");
  add(sums.first, "partition gets its first offset", "partitions get their first offset");
  add(sums.anew, "partition starts anew, where auto.offset.reset says", "partitions start anew, where auto.offset.reset says");
  add(sums.unknown, "partition could not be looked at", "partitions could not be looked at");
  return parts.length === 0 ? "No record is read again or skipped" : parts.join("; ");
}

// For one row: what happens to its records.
export function recordsText(row: OffsetChange): string {
  if (row.starts_anew) return "starts anew";
  if (row.from === null && row.to !== null) return "first offset";
  if (row.records === null) return "not known";
  if (row.records === 0) return "0";
  return row.records < 0 ? `${exact(-row.records)} read again` : `${exact(row.records)} skipped`;
}

// What the server wants back in order to do it: by topic the partition, its offset and the new one.
export function applyOf(rows: OffsetChange[]): Record<string, [number, number | null, number | null][]> {
  const written = rows.filter((row) => row.writes);
  return byTopic(written, (row) => [row.partition, row.from, row.to]);
}

export function byTopic<R extends { topic: string }, V>(rows: readonly R[], value: (row: R) => V): Record<string, V[]> {
  const found = new Map<string, V[]>();
  for (const row of rows) {
    const values = found.get(row.topic);
    if (values === undefined) found.set(row.topic, [value(row)]);
    else values.push(value(row));
  }
  return Object.fromEntries(found); // a topic may be called __proto__
}
