// Commits with their authors, and the configuration in force.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Commit, ConfigEntry } from "../../data/types.ts";
import { exact, place, short } from "../../format.ts";
import { Card } from "../../ui/parts.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Ago, Name } from "../../ui/words.tsx";
import { type GroupView, labelOf } from "./model.ts";

interface Props {
  view: GroupView;
  labels: ReadonlyMap<string, string>;
}

interface Numbered extends Commit {
  at: number;
}

export function Commits(props: Props): JSX.Element | null {
  const { view, labels } = props;
  const commits = view.snapshot.commits;
  const rows = useMemo(() => (commits ?? []).map((one, at) => ({ ...one, at })), [commits]);
  const columns = useMemo(() => commitColumns(labels, view.skew), [labels, view.skew]);
  if (commits === undefined) return null;
  return (
    <Card id="commits" title="Commits" aside={exact(rows.length)}>
      <Table
        label="Commits"
        columns={columns}
        rows={rows}
        rowKey={(row) => String(row.at)}
        initial={{ key: "time", direction: "descending" }}
        empty="No commit has been seen."
      />
    </Card>
  );
}

function commitColumns(labels: ReadonlyMap<string, string>, skew: number): Column<Numbered>[] {
  return [
    {
      key: "time",
      title: "When",
      width: 100,
      cell: (row) => <Ago ms={row.timestamp_ms} skew={skew} />,
      sort: (row) => row.timestamp_ms,
    },
    {
      key: "partition",
      title: "Partition",
      width: 110,
      grow: true,
      cell: (row) => <Name text={place(row.topic, row.partition)} />,
      sort: (row) => place(row.topic, row.partition),
    },
    {
      key: "to",
      title: "Offset",
      width: 160,
      numeric: true,
      cell: (row) => (
        <span>
          <span class="soft">{row.from === null ? "none" : exact(row.from)} →</span> {row.to === null ? "none" : exact(row.to)}
        </span>
      ),
      sort: (row) => row.to,
    },
    {
      key: "moved",
      title: "Moved",
      width: 74,
      numeric: true,
      cell: (row) => moved(row),
      sort: (row) => (row.from === null || row.to === null ? null : row.to - row.from),
    },
    {
      key: "by",
      title: "By",
      width: 110,
      cell: (row) => <Name text={row.by === null ? "not known" : labelOf(labels, row.by)} most={24} />,
      sort: (row) => row.by,
    },
  ];
}

function moved(row: Commit): string {
  if (row.from === null || row.to === null) return "–";
  const by = row.to - row.from;
  return by > 0 ? `+${short(by)}` : short(by);
}

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
