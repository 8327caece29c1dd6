// Sorting by a column: what is not known comes last in either direction, and equal rows keep their order.

export type Key = string | number | null | undefined;
export type Direction = "ascending" | "descending";

const NAMES = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function order(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : NAMES.compare(String(a), String(b));
}

export function sorted<R>(rows: readonly R[], key: (row: R) => Key, direction: Direction): R[] {
  const sign = direction === "ascending" ? 1 : -1;
  const keyed = rows.map((row) => ({ row, key: key(row) ?? null }));
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null) return a.key === b.key ? 0 : a.key === null ? 1 : -1;
    return sign * order(a.key, b.key);
  });
  return keyed.map((one) => one.row);
}
