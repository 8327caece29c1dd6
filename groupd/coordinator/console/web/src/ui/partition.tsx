// The column of tables whose rows are partitions.
import type { ComponentChildren } from "preact";
import { place } from "../format.ts";
import type { Column } from "./table.tsx";
import { Name } from "./words.tsx";

export interface Placed {
  topic: string;
  partition: number;
}

// `cell` makes more of the name than its text.
export function partitionColumn<R extends Placed>(
  width: number,
  cell: (name: string) => ComponentChildren = (name) => <Name text={name} />,
): Column<R> {
  return {
    key: "partition",
    title: "Partition",
    width,
    grow: true,
    cell: (row) => cell(nameOf(row)),
    sort: nameOf,
  };
}

export function nameOf(row: Placed): string {
  return place(row.topic, row.partition);
}
