// All groups in one table.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Sparkline } from "../charts/sparkline.tsx";
import {
  type Filter,
  foldGroups,
  type GroupList,
  judgementOf,
  matching,
  NO_FILTER,
  type Summary,
  summarize,
} from "../data/groups.ts";
import { useLive } from "../data/live.ts";
import type { GroupRow, Judgement } from "../data/types.ts";
import { brief, exact, idText, NOT_KNOWN } from "../format.ts";
import { groupHash } from "../router.ts";
import { Chips, ConsoleLink, Notice, OutOfDate, Waiting } from "../ui/parts.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Ago, Badge, Icon, JUDGEMENTS, Name, Num, Seconds } from "../ui/words.tsx";

const WORST_FIRST: readonly string[] = [...JUDGEMENTS.slice(0, -1), NOT_KNOWN, "ok"];

export function GroupsPage(): JSX.Element {
  const live = useLive<GroupList>("live/groups", foldGroups);
  return (
    <div class="page groups">
      <h1>Groups</h1>
      <OutOfDate live={live} />
      {live.data === null ? <Waiting live={live} what="the groups" /> : <Groups list={live.data} />}
    </div>
  );
}

function Groups(props: { list: GroupList }): JSX.Element {
  const { list } = props;
  const [filter, setFilter] = useState<Filter>(NO_FILTER);
  const summary = useMemo(() => summarize(list.rows), [list]);
  const shown = useMemo(() => matching(list.rows, filter), [list, filter]);
  const columns = useMemo(() => columnsFor(list.skew), [list.skew]);
  return (
    <>
      <Lacks list={list} />
      <SummaryLine list={list} summary={summary} shown={shown.length} />
      <Filters filter={filter} onFilter={setFilter} summary={summary} />
      <Table
        label="Groups"
        size="page"
        columns={columns}
        rows={shown}
        rowKey={(row) => row.group_id}
        rowClass={(row) => `judged ${row.judgement ?? "unknown"}`}
        initial={{ key: "judgement", direction: "ascending" }}
        empty={<NoGroup list={list} text={filter.text.trim()} />}
      />
    </>
  );
}

function NoGroup(props: { list: GroupList; text: string }): JSX.Element {
  const { list, text } = props;
  if (list.other_nodes.length > 0 && text !== "") {
    return (
      <>
        No group here matches. <a href={groupHash(text)}>Which node serves the group “{text}”?</a>
      </>
    );
  }
  return <>{list.rows.length === 0 ? "There is no group yet." : "No group matches the search and the filters."}</>;
}

function Lacks(props: { list: GroupList }): JSX.Element {
  const { more, node, missing, other_nodes, rows } = props.list;
  return (
    <>
      {other_nodes.length > 0 && (
        <Notice tone="info">
          These are the groups of node {node?.id}. The other nodes serve other groups:
          {other_nodes.map((one) => (
            <>
              {" "}
              <ConsoleLink key={one.node} admin={one.admin} hash="#/" plain>
                node {one.node}
              </ConsoleLink>
            </>
          ))}
        </Notice>
      )}
      {missing !== null && <Notice tone="warning">Groups may be missing from this list: {missing}.</Notice>}
      {more && (
        <Notice tone="info">
          There are more groups. These are the first {exact(rows.length)} by id; <code>groupd groups list</code> has them all.
        </Notice>
      )}
    </>
  );
}

function SummaryLine(props: { list: GroupList; summary: Summary; shown: number }): JSX.Element {
  const { list, summary, shown } = props;
  const groups = list.rows.length;
  return (
    <p class="summary">
      <span>
        <b>{exact(groups)}</b> {groups === 1 ? "group" : "groups"}
        {shown !== groups && <span class="soft"> ({exact(shown)} shown)</span>}
      </span>
      <span>
        <b>
          <Num value={summary.members} />
        </b>{" "}
        {summary.members === 1 ? "member" : "members"}
      </span>
      <span>
        total lag{" "}
        <b>
          <Num value={summary.lag} unit="records" />
        </b>
      </span>
      {WORST_FIRST.filter((one) => summary.judgements.has(one)).map((one) => (
        <span key={one} class="judged-count">
          <Icon judgement={one === NOT_KNOWN ? null : (one as Judgement)} />
          <b>{exact(summary.judgements.get(one))}</b> {one}
        </span>
      ))}
    </p>
  );
}

function Filters(props: { filter: Filter; onFilter(filter: Filter): void; summary: Summary }): JSX.Element {
  const { filter, onFilter, summary } = props;
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const slash = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      search.current?.focus();
      search.current?.select();
    };
    document.addEventListener("keydown", slash);
    return () => document.removeEventListener("keydown", slash);
  }, []);
  const down = (event: KeyboardEvent) => {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    const link = document.querySelector<HTMLElement>("[data-table] tr[data-row] a");
    if (link === null) return;
    event.preventDefault();
    if (event.key === "Enter") link.click();
    else link.focus();
  };
  const choices = (counted: Map<string, number>, order?: readonly string[]) =>
    (order ?? [...counted.keys()].sort())
      .filter((one) => counted.has(one))
      .map((one) => ({ value: one, label: one, count: counted.get(one) ?? 0 }));
  const judged = choices(summary.judgements, WORST_FIRST).map((one) => ({
    ...one,
    label: (
      <>
        <Icon judgement={one.value === NOT_KNOWN ? null : (one.value as Judgement)} /> {one.value}
      </>
    ),
  }));
  return (
    <div class="filters" role="search">
      <input
        ref={search}
        type="search"
        placeholder="Search group ids ( / )"
        aria-label="Search group ids"
        aria-keyshortcuts="/"
        value={filter.text}
        onInput={(event) => onFilter({ ...filter, text: event.currentTarget.value })}
        onKeyDown={down}
      />
      <Chips
        label="Judgement"
        choices={judged}
        chosen={filter.judgements}
        onChange={(judgements) => onFilter({ ...filter, judgements })}
      />
      <Chips
        label="State"
        choices={choices(summary.states)}
        chosen={filter.states}
        onChange={(states) => onFilter({ ...filter, states })}
      />
      <Chips
        label="Type"
        choices={summary.types.size > 1 ? choices(summary.types) : []}
        chosen={filter.types}
        onChange={(types) => onFilter({ ...filter, types })}
      />
    </div>
  );
}

function columnsFor(skew: number): Column<GroupRow>[] {
  return [
    {
      key: "group",
      title: "Group",
      width: 220,
      grow: true,
      cell: (row) => (
        <a href={groupHash(row.group_id)}>
          <Name text={idText(row.group_id)} most={60} />
        </a>
      ),
      sort: (row) => row.group_id,
    },
    {
      key: "judgement",
      title: "Judgement",
      width: 134,
      cell: (row) => <Badge judgement={row.judgement} />,
      // The worst first; of those that are alike, the ones with more lag.
      sort: (row) => WORST_FIRST.indexOf(judgementOf(row)) - Math.min(1, (row.lag ?? 0) / 1e12),
    },
    {
      key: "lag",
      title: "Lag",
      width: 84,
      numeric: true,
      hint: "Records that are not committed yet, all partitions",
      cell: (row) => <Num value={row.lag} unit="records" />,
      sort: (row) => row.lag,
    },
    {
      key: "seconds",
      title: "Behind",
      width: 106,
      numeric: true,
      hint: "Age of the oldest record that is not committed yet",
      cell: (row) => <Seconds value={row.lag_seconds} lag={row.lag} />,
      sort: (row) => row.lag_seconds,
    },
    {
      key: "trend",
      title: "Last hour",
      width: 118,
      hint: "Lag in the last hour; sorted by how much it has grown",
      cell: (row) => <Sparkline values={row.trend} what="Lag in the last hour" none={row.lag === null ? "–" : "no lag"} />,
      sort: (row) => growth(row),
      first: "descending",
    },
    { key: "state", title: "State", width: 158, cell: (row) => row.state, sort: (row) => row.state },
    {
      key: "members",
      title: "Members",
      width: 96,
      numeric: true,
      cell: (row) => <Num value={row.members} />,
      sort: (row) => row.members,
    },
    { key: "type", title: "Type", width: 92, cell: (row) => row.type, sort: (row) => row.type },
    {
      key: "rebalance",
      title: "Last rebalance",
      width: 280,
      cell: (row) =>
        row.last_rebalance === null ? (
          <span class="soft">none seen</span>
        ) : (
          <span class="cut" title={row.last_rebalance.cause}>
            <Ago ms={row.last_rebalance.timestamp_ms} skew={skew} />: {brief(row.last_rebalance.cause)}
          </span>
        ),
      sort: (row) => row.last_rebalance?.timestamp_ms,
      first: "descending",
    },
  ];
}

function growth(row: GroupRow): number | null {
  if (row.trend === null) return 0;
  const known = row.trend.filter((one) => one !== null);
  return known.length === 0 ? null : (known.at(-1) as number) - (known[0] as number);
}
