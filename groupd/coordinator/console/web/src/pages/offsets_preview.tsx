// What a move of offsets would do or has done, and the question before it is done.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { OffsetChange, OffsetChanges } from "../data/types.ts";
import { exact, idText, plural } from "../format.ts";
import { nameOf, partitionColumn } from "../ui/partition.tsx";
import { Card, Notice } from "../ui/parts.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { recordsText, sentence, sumsOf } from "./offsets_rows.ts";

export function Preview(props: {
  changes: OffsetChanges;
  applied: boolean;
  working: boolean;
  onApply(): void;
}): JSX.Element {
  const { changes, applied } = props;
  const sums = useMemo(() => sumsOf(changes.rows), [changes]);
  const [moves, stays] = applied ? ["moved", "stayed"] : ["to move", "to stay"];
  const aside = `${plural(sums.moved, "partition")} ${moves}, ${exact(sums.kept)} ${stays}`;
  const title = applied ? "What has been done" : "What would be done";
  return (
    <Card id="preview" title={title} aside={aside}>
      <Notice tone={applied ? "good" : sums.skipped + sums.anew > 0 ? "warning" : "info"}>
        <span role="status">
          {applied && "Done. "}
          {sentence(sums)}.{sums.warnings > 0 && ` ${plural(sums.warnings, "partition")} with a warning.`}
        </span>
      </Notice>
      <Table
        label={title}
        columns={sums.warnings > 0 ? [...COLUMNS, WARNING] : COLUMNS}
        rows={changes.rows}
        rowKey={nameOf}
        initial={{ key: "records", direction: "descending" }}
        empty="No partition is concerned."
      />
      {!applied && (
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
    <dialog
      ref={dialog}
      aria-labelledby="confirm-title"
      onCancel={(event) => {
        // While it is being done nobody turns away from it: what was done is told here.
        if (props.working) event.preventDefault();
        else props.onCancel();
      }}
    >
      <h2 id="confirm-title">Move the offsets of {idText(props.groupId)}?</h2>
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
  partitionColumn(180),
  {
    key: "records",
    title: "Records",
    width: 150,
    numeric: true,
    cell: recordsText,
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
