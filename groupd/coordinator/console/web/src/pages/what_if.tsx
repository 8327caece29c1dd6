// What another assignor would do with the group as it is now: nothing is changed.
import type { JSX } from "preact";
import { useCallback, useMemo, useState } from "preact/hooks";
import { get, groupPath } from "../data/api.ts";
import type { Assignors, Balance, Group, WhatIf } from "../data/types.ts";
import { exact, place, plural, short } from "../format.ts";
import { useLoad } from "../ui/load.ts";
import { Bar, Card, Notice, Tile } from "../ui/parts.tsx";
import { partitionColumn } from "../ui/partition.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Name } from "../ui/words.tsx";
import { labelOf, labelsOf } from "./group/model.ts";
import { GroupHead } from "./group/page.tsx";

const BY_VOTES = "Members vote for the assignor with their own settings.";
const BY_MEMBERS =
  "The members of a classic group assign by themselves; on the consumer protocol an assignor of the coordinator would do it. " +
  "Members that are restarted to go over to it move partitions besides.";

export function WhatIfPage(props: { groupId: string }): JSX.Element {
  const { groupId } = props;
  const path = groupPath(groupId, "/what-if");
  const choices = useLoad<Assignors>(path, get);
  const group = useLoad<Group>(groupPath(groupId), get);
  const [chosen, setChosen] = useState<string | null>(null);
  const assignor = chosen ?? choices.value?.used ?? choices.value?.assignors[0] ?? null;
  const load = useCallback((key: string, signal: AbortSignal) => get<WhatIf>(key, signal), []);
  const found = useLoad(assignor === null ? null : `${path}?assignor=${encodeURIComponent(assignor)}`, load);
  const labels = useMemo(() => labelsOf(group.value?.members ?? []), [group.value]);
  return (
    <div class="page what-if">
      <GroupHead groupId={groupId} at="what-if" />
      <p class="lead">
        Shows what an assignor would do with the members and topics of this moment. Nothing is changed.{" "}
        {choices.value !== null && (choices.value.used === null ? BY_MEMBERS : BY_VOTES)}
      </p>
      {choices.error !== null && <Notice tone="error">{choices.error}</Notice>}
      {choices.value !== null && (
        <Choice choices={choices.value} chosen={assignor} onChoose={setChosen} />
      )}
      {found.error !== null && choices.error === null && <Notice tone="error">{found.error}</Notice>}
      {found.value !== null ? (
        <div class={found.loading ? "page stale" : "page"}>
          <Result result={found.value} labels={labels} />
        </div>
      ) : (
        found.loading && choices.error === null && <p class="loading">Computing the assignment …</p>
      )}
    </div>
  );
}

function Choice(props: { choices: Assignors; chosen: string | null; onChoose(name: string): void }): JSX.Element {
  return (
    <fieldset class="choice">
      <legend>Assignor</legend>
      {props.choices.assignors.map((name) => (
        <label key={name}>
          <input type="radio" name="assignor" checked={name === props.chosen} onChange={() => props.onChoose(name)} />
          {name}
          {name === props.choices.used && <span class="soft"> in use</span>}
        </label>
      ))}
    </fieldset>
  );
}

interface Row {
  id: string;
  label: string;
  now: number;
  then: number;
}

function Result(props: { result: WhatIf; labels: ReadonlyMap<string, string> }): JSX.Element {
  const { result, labels } = props;
  const rows = useMemo(() => {
    const ids = new Set([...Object.keys(result.current), ...Object.keys(result.proposed)]);
    return [...ids].map((id) => ({
      id,
      label: labelOf(labels, id),
      now: result.current[id] ?? 0,
      then: result.proposed[id] ?? 0,
    }));
  }, [result, labels]);
  const most = useMemo(() => rows.reduce((sum, one) => Math.max(sum, one.now, one.then), 1), [rows]);
  const total = rows.reduce((sum, one) => sum + one.then, 0);
  return (
    <>
      <p class="lead">{result.compared}</p>
      <section class="headline" aria-label="What would change">
        <Tile label="Partitions that move" note={`of ${exact(total)}`}>
          {exact(result.moved)}
        </Tile>
        <Tile label="Now" note={<Spread balance={result.balance.current} />}>
          {share(result.balance.current)}
        </Tile>
        <Tile label={`With ${result.assignor}`} note={<Spread balance={result.balance.proposed} />}>
          {share(result.balance.proposed)}
        </Tile>
      </section>
      <div class="cards">
        <Card id="balance" title="Partitions of each member" aside={plural(rows.length, "member")}>
          <Table
            label="Partitions of each member"
            columns={balanceColumns(most, result.assignor)}
            rows={rows}
            rowKey={(row) => row.id}
            initial={{ key: "change", direction: "descending" }}
            empty="The group has no members."
          />
        </Card>
        <Moves result={result} labels={labels} />
      </div>
    </>
  );
}

function share(balance: Balance): string {
  return balance.least === balance.most ? `${balance.most} each` : `${balance.least} to ${balance.most}`;
}

function Spread(props: { balance: Balance }): JSX.Element {
  return <>partitions a member, standard deviation {short(Math.round(props.balance.deviation * 100) / 100)}</>;
}

function balanceColumns(most: number, assignor: string): Column<Row>[] {
  const bars = (key: "now" | "then", title: string): Column<Row> => ({
    key,
    title,
    width: 150,
    cell: (row) => (
      <span class="bar-cell">
        <Bar share={row[key] / most} label={`${exact(row[key])} partitions`} tone={key === "then" ? "second" : ""} />
        <b>{exact(row[key])}</b>
      </span>
    ),
    sort: (row) => row[key],
    first: "descending",
  });
  return [
    { key: "member", title: "Member", width: 180, grow: true, cell: (row) => <Name text={row.label} />, sort: (row) => row.label },
    bars("now", "Now"),
    bars("then", `With ${assignor}`),
    {
      key: "change",
      title: "Change",
      width: 92,
      numeric: true,
      cell: (row) => signed(row.then - row.now),
      sort: (row) => Math.abs(row.then - row.now),
    },
  ];
}

function signed(value: number): string {
  return value > 0 ? `+${exact(value)}` : value < 0 ? `−${exact(-value)}` : "0";
}

type Move = WhatIf["moves"][number];

function Moves(props: { result: WhatIf; labels: ReadonlyMap<string, string> }): JSX.Element {
  const { result, labels } = props;
  const columns: Column<Move>[] = useMemo(
    () => [
      partitionColumn<Move>(160),
      { key: "from", title: "From", width: 180, cell: (row) => labelOf(labels, row.from), sort: (row) => labelOf(labels, row.from) },
      { key: "to", title: "To", width: 180, cell: (row) => labelOf(labels, row.to), sort: (row) => labelOf(labels, row.to) },
    ],
    [labels],
  );
  return (
    <Card id="moves" title="Moves" aside={result.moves.length < result.moved ? `the first ${exact(result.moves.length)} of ${exact(result.moved)}` : exact(result.moved)}>
      <Table
        label="Moves"
        columns={columns}
        rows={result.moves}
        rowKey={(row) => place(row.topic, row.partition)}
        initial={{ key: "partition", direction: "ascending" }}
        empty="No partition would move."
      />
    </Card>
  );
}
