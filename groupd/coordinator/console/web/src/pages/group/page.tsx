// Everything about one group, live.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { groupPath } from "../../data/api.ts";
import { useLive } from "../../data/live.ts";
import { idText } from "../../format.ts";
import { groupHash } from "../../router.ts";
import { Notice, OutOfDate, Waiting } from "../../ui/parts.tsx";
import { Badge } from "../../ui/words.tsx";
import { Configs } from "./details.tsx";
import { Headline } from "./headline.tsx";
import { Lag } from "./lag.tsx";
import { LookAt } from "./look_at.tsx";
import { foldGroup, type GroupView, labelsOf } from "./model.ts";
import { Picture } from "./picture.tsx";
import { Rebalances } from "./rebalances.tsx";
import { Share } from "./share.tsx";
import { Members, Partitions } from "./tables.tsx";
import { Waits } from "./waits.tsx";

export function GroupPage(props: { groupId: string }): JSX.Element {
  const { groupId } = props;
  const live = useLive<GroupView>(`live/${groupPath(groupId)}`, foldGroup);
  const view = live.data;
  return (
    <div class="page group">
      <GroupHead groupId={groupId} at="">
        {view !== null && <Badge judgement={view.snapshot.lag.judgement} />}
      </GroupHead>
      {live.gone && (
        <Notice tone="warning">
          The group has been deleted. {view !== null && "What is below is the last that was seen of it. "}
          The page goes on as soon as the group is there again.
        </Notice>
      )}
      <OutOfDate live={live} />
      {view === null ? <Waiting live={live} what="the group" /> : <Sections view={view} />}
    </div>
  );
}

// The title of a group's pages, with the ways from one to the other.
export function GroupHead(props: {
  groupId: string;
  at: "" | "what-if" | "offsets";
  children?: JSX.Element | false;
}): JSX.Element {
  const pages = [
    ["", "Now"],
    ["what-if", "What if"],
    ["offsets", "Offsets"],
  ] as const;
  return (
    <div class="group-head">
      <p class="crumbs">
        <a href="#/">Groups</a> <span aria-hidden="true">/</span>
      </p>
      <h1>{idText(props.groupId)}</h1>
      {props.children}
      <nav aria-label="Pages of the group" class="tabs">
        {pages.map(([page, name]) => (
          <a key={page} href={groupHash(props.groupId, page)} aria-current={page === props.at ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
    </div>
  );
}

const SMALL = 48;

function Sections(props: { view: GroupView }): JSX.Element {
  const { view } = props;
  const { snapshot } = view;
  const labels = useMemo(() => labelsOf(snapshot.group.members), [snapshot]);
  const picture = <Picture view={view} labels={labels} />;
  // Needs no more than half of the page.
  const isSmall = snapshot.offsets.partitions.length <= SMALL;
  const cut = snapshot.group.left_out ?? [];
  return (
    <>
      <p class="hidden" role="status">
        {snapshot.group.state}, {snapshot.lag.judgement ?? "judgement not known yet"}
      </p>
      {cut.length > 0 && <Notice tone="info">The group is too large to show all of: {cut.join(", ")}.</Notice>}
      <Headline view={view} />
      <LookAt snapshot={snapshot} />
      <div class="cards">
        <div class="stack">
          <Waits view={view} labels={labels} />
          <Rebalances view={view} labels={labels} />
        </div>
        {isSmall ? (
          <div class="stack">
            <Lag view={view} />
            {picture}
          </div>
        ) : (
          <Lag view={view} />
        )}
        <div class="stack wide">
          {!isSmall && picture}
          <Members view={view} labels={labels} />
        </div>
        <Share view={view} labels={labels} />
        <Partitions view={view} labels={labels} />
        <Configs view={view} />
      </div>
    </>
  );
}
