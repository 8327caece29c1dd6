// What a move of offsets would do or has done, and the question before it is done.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { OffsetChange, OffsetChanges } from "../data/types.ts";
import { exact, place, plural } from "../format.ts";
import { Card, Notice } from "../ui/parts.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Name } from "../ui/words.tsx";

interface Sums {
  moved: number;
  kept: number;
  again: number;
  skipped: number;
  warnings: number;
}

export function sumsOf(rows: OffsetChange[]): Sums {
  const sums: Sums = { moved: 0, kept: 0, again: 0, skipped: 0, warnings: 0 };
  for (const row of rows) {
    if (row.warning) sums.warnings++;
    if (isKept(row)) {
      sums.kept++;
      continue;
    }
    sums.moved++;
    const records = row.records ?? 0;
    if (records < 0) sums.again -= records;
    else sums.skipped += records;
  }
  return sums;
}

// What the server does not write: it is there already, was not there then, or cannot be.
const KEPT: readonly string[] = ["keep", "leave", "skip"];

function isKept(row: OffsetChange): boolean {
  return KEPT.includes(row.action);
}

function sentence(sums: Sums): string {
  const parts = [
    sums.again > 0 ? `${exact(sums.again)} records are read again` : "",
    sums.skipped > 0 ? `${exact(sums.skipped)} records are skipped` : "",
  ].filter((one) => one !== "");
  return parts.length === 0 ? "No record is read again or skipped" : parts.join(", ");
}

export function Preview(props: { changes: OffsetChanges; working: boolean; onApply(): void }): JSX.Element {
  const { changes } = props;
  const sums = useMemo(() => sumsOf(changes.rows), [changes]);
  const [moves, stays] = changes.applied ? ["moved", "stayed"] : ["to move", "to stay"];
  const aside = `${plural(sums.moved, "partition")} ${moves}, ${exact(sums.kept)} ${stays}`;
  const title = changes.applied ? "What has been done" : "What would be done";
  return (
    <Card id="preview" title={title} aside={aside}>
      <Notice tone={changes.applied ? "good" : sums.skipped > 0 ? "warning" : "info"}>
        <span role="status">
          {changes.applied && "Done. "}
          {sentence(sums)}.{sums.warnings > 0 && ` ${plural(sums.warnings, "partition")} with a warning.`}
        </span>
      </Notice>
      <Table
        label={title}
        columns={sums.warnings > 0 ? [...COLUMNS, WARNING] : COLUMNS}
        rows={changes.rows}
        rowKey={(row) => place(row.topic, row.partition)}
        initial={{ key: "records", direction: "descending" }}
        empty="No partition is concerned."
      />
      {!changes.applied && (
        <div class="actions">
          <button
            type="button"
            class="danger"
            disabled={props.working || sums.moved === 0 || changes.refusal !== ""}
            onClick={props.onApply}
          >
            Apply …
          </button>
          {sums.moved === 0 && <span class="soft">Nothing would change.</span>}
          {changes.refusal !== "" && <span class="soon">Not now: {changes.refusal}</span>}
        </div>
      )}
    </Card>
  );
}

export function Confirm(props: {
  groupId: string;
  changes: OffsetChanges;
  working: boolean;
  onCancel(): void;
  onApply(): void;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const cancel = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const node = dialog.current;
    node?.showModal();
    cancel.current?.focus();
    return () => node?.close();
  }, []);
  const sums = sumsOf(props.changes.rows);
  return (
    <dialog ref={dialog} aria-labelledby="confirm-title" onCancel={props.onCancel}>
      <h2 id="confirm-title">Move the offsets of {props.groupId}?</h2>
      <p>
        The committed offsets of {plural(sums.moved, "partition")} change. {sentence(sums)}.
      </p>
      <div class="actions">
        <button type="button" class="danger" disabled={props.working} onClick={props.onApply}>
          {props.working ? "Moving …" : "Move them"}
        </button>
        <button type="button" ref={cancel} disabled={props.working} onClick={props.onCancel}>
          Cancel
        </button>
      </div>
    </dialog>
  );
}

const COLUMNS: Column<OffsetChange>[] = [
  {
    key: "partition",
    title: "Partition",
    width: 180,
    grow: true,
    cell: (row) => <Name text={place(row.topic, row.partition)} />,
    sort: (row) => place(row.topic, row.partition),
  },
  {
    key: "records",
    title: "Records",
    width: 150,
    numeric: true,
    cell: (row) => records(row),
    sort: (row) => (row.records === null ? null : Math.abs(row.records)),
  },
  offsetColumn("from", "From"),
  offsetColumn("to", "To"),
  { key: "action", title: "Action", width: 92, cell: (row) => row.action, sort: (row) => row.action },
];

const WARNING: Column<OffsetChange> = {
  key: "warning",
  title: "Warning",
  width: 260,
  cell: (row) => (
    <span class="cut" title={row.warning ?? undefined}>
      {row.warning}
    </span>
  ),
  sort: (row) => row.warning,
};

function offsetColumn(key: "from" | "to", title: string): Column<OffsetChange> {
  return {
    key,
    title,
    width: 120,
    numeric: true,
    cell: (row) => (row[key] === null ? "none" : exact(row[key])),
    sort: (row) => row[key],
  };
}

function records(row: OffsetChange): string {
  if (row.records === null) return "not known";
  if (row.records === 0) return "0";
  return row.records < 0 ? `${exact(-row.records)} read again` : `${exact(row.records)} skipped`;
}
