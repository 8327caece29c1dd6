// Which partitions are moved: all that have an offset, those of some topics, or one by one.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { PartitionOffsets } from "../data/types.ts";
import { exact, plural } from "../format.ts";
import { nameOf, partitionColumn } from "../ui/partition.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Name, Num } from "../ui/words.tsx";
import { byTopic } from "./offsets_rows.ts";

// `partitions` null: they have not been read yet, or it `failed`. All can be moved then, but none can be chosen.
export function PartitionChoice(props: {
  partitions: PartitionOffsets[] | null;
  failed: boolean;
  chosen: ReadonlySet<string> | null;
  onChange(chosen: ReadonlySet<string> | null): void;
}): JSX.Element {
  const { partitions, chosen, onChange } = props;
  const committed = useMemo(() => partitions?.filter((one) => one.committed_offset !== null) ?? null, [partitions]);
  return (
    <fieldset>
      <legend>Partitions</legend>
      <label class="check">
        <input type="radio" name="scope" checked={chosen === null} onChange={() => onChange(null)} />
        All {committed !== null && `${exact(committed.length)} `}that have an offset
      </label>
      <label class="check">
        <input
          type="radio"
          name="scope"
          checked={chosen !== null}
          disabled={committed === null}
          onChange={() => onChange(new Set(committed?.map(nameOf)))}
        />
        Some{chosen !== null && `: ${plural(chosen.size, "partition")} chosen`}
        {committed === null && (
          <span class="soft"> (the partitions {props.failed ? "could not be read" : "are being read …"})</span>
        )}
      </label>
      {chosen !== null && partitions !== null && <Picker partitions={partitions} chosen={chosen} onChange={onChange} />}
    </fieldset>
  );
}

interface PickerProps {
  partitions: PartitionOffsets[];
  chosen: ReadonlySet<string>;
  onChange(chosen: ReadonlySet<string>): void;
}

function Picker(props: PickerProps): JSX.Element {
  const { partitions, chosen, onChange } = props;
  const [text, setText] = useState("");
  const topics = useMemo(
    () => Object.entries(byTopic(partitions, nameOf)).sort(([a], [b]) => (a < b ? -1 : 1)),
    [partitions],
  );
  const put = (names: string[], on: boolean) => {
    const next = new Set(chosen);
    for (const name of names) {
      if (on) next.add(name);
      else next.delete(name);
    }
    onChange(next);
  };
  const shown = partitions.filter((one) => nameOf(one).includes(text.trim()));
  return (
    <div class="picker">
      <div class="topic-checks" role="group" aria-label="Topics">
        {topics.slice(0, 100).map(([topic, names]) => {
          const on = names.filter((name) => chosen.has(name)).length;
          return (
            <label class="check" key={topic}>
              <input
                type="checkbox"
                checked={on === names.length}
                ref={(node) => {
                  if (node !== null) node.indeterminate = on > 0 && on < names.length;
                }}
                onChange={(event) => put(names, event.currentTarget.checked)}
              />
              <Name text={topic} /> <span class="soft">{`${on}/${names.length}`}</span>
            </label>
          );
        })}
      </div>
      <input
        type="search"
        placeholder="Search partitions"
        aria-label="Search partitions"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <Table
        label="Partitions to choose from"
        columns={pickColumns(chosen, put)}
        rows={shown}
        rowKey={nameOf}
        empty="No partition matches."
      />
    </div>
  );
}

function pickColumns(
  chosen: ReadonlySet<string>,
  put: (names: string[], on: boolean) => void,
): Column<PartitionOffsets>[] {
  return [
    partitionColumn(220, (name) => (
      <label class="check">
        <input type="checkbox" checked={chosen.has(name)} onChange={(event) => put([name], event.currentTarget.checked)} />
        <Name text={name} />
      </label>
    )),
    {
      key: "committed",
      title: "Committed",
      width: 120,
      numeric: true,
      cell: (row) => (row.committed_offset === null ? "none" : exact(row.committed_offset)),
      sort: (row) => row.committed_offset,
    },
    { key: "lag", title: "Lag", width: 90, numeric: true, cell: (row) => <Num value={row.lag} unit="records" />, sort: (row) => row.lag },
  ];
}
