// The configuration in force, and where each value comes from.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { ConfigEntry } from "../../data/types.ts";
import { Card } from "../../ui/parts.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Name } from "../../ui/words.tsx";
import type { GroupView } from "./model.ts";

export function Configs(props: { view: GroupView }): JSX.Element {
  const { configs } = props.view.snapshot;
  const [text, setText] = useState("");
  const rows = useMemo(
    () => configs.filter((one) => one.name.toLowerCase().includes(text.trim().toLowerCase())),
    [configs, text],
  );
  const search = (
    <input
      type="search"
      placeholder="Search settings"
      aria-label="Search settings"
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
    />
  );
  return (
    <Card id="configs" title="Configuration in force" aside={search}>
      <Table
        label="Configuration in force"
        columns={CONFIG_COLUMNS}
        rows={rows}
        rowKey={(row) => row.name}
        initial={{ key: "name", direction: "ascending" }}
        empty="No setting matches."
      />
    </Card>
  );
}

const CONFIG_COLUMNS: Column<ConfigEntry>[] = [
  {
    key: "name",
    title: "Setting",
    width: 230,
    grow: true,
    cell: (row) => <Name text={row.name} most={60} />,
    sort: (row) => row.name,
  },
  {
    key: "value",
    title: "Value",
    width: 120,
    cell: (row) => <code>{row.value === null ? "–" : String(row.value)}</code>,
    sort: (row) => String(row.value),
  },
  { key: "source", title: "Source", hint: "Where the value comes from", width: 160, cell: (row) => row.source, sort: (row) => row.source },
];
