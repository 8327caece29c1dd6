// How the group is, in one row: state, judgement with its reason, and how far a rebalance has come.
import type { JSX } from "preact";
import type { Group } from "../../data/types.ts";
import { exact, NOT_KNOWN } from "../../format.ts";
import { Tile } from "../../ui/parts.tsx";
import { Badge, Num, Seconds } from "../../ui/words.tsx";
import { type GroupView, type Progress, progressOf } from "./model.ts";

export function Headline(props: { view: GroupView }): JSX.Element {
  const { group, lag, offsets } = props.view.snapshot;
  const oldest = lag.lag_seconds;
  return (
    <section class="headline" aria-label="How the group is">
      <Tile label="State" note={`${group.type} group`}>
        {group.state}
      </Tile>
      <Tile label="Judgement" note={lag.reason ?? "Lag has not been seen often enough."}>
        <Badge judgement={lag.judgement} />
      </Tile>
      <Tile label="Lag" note={lag.lag === 0 ? "no records wait" : oldest === null ? `age ${NOT_KNOWN}` : <AgeNote seconds={oldest} />}>
        <Num value={lag.lag} unit="records" />
      </Tile>
      <Tile label="Members" note={`${exact(offsets.partitions.length)} partitions`}>
        <Num value={group.members.length} />
      </Tile>
      <div class="tile epochs">
        <div class="tile-label">{group.group_epoch === undefined ? "Rebalance" : "Reconciliation"}</div>
        <Epochs group={group} />
      </div>
    </section>
  );
}

function AgeNote(props: { seconds: number }): JSX.Element {
  return (
    <>
      the oldest record waits for <Seconds value={props.seconds} />
    </>
  );
}

function Epochs(props: { group: Group }): JSX.Element {
  const { group } = props;
  const progress = progressOf(group);
  const total = group.members.length;
  const classic = group.group_epoch === undefined;
  const behind = !classic && (group.assignment_epoch ?? 0) < (group.group_epoch ?? 0);
  return (
    <>
      <ol class="steps">
        {classic ? (
          <Step label="generation" value={group.generation} done />
        ) : (
          <>
            <Step label="group epoch" value={group.group_epoch} done />
            <Step label="target epoch" value={group.assignment_epoch} done={!behind} />
          </>
        )}
        <Step
          label={classic ? "members ready" : "members at the target epoch"}
          value={`${exact(progress.arrived)} of ${exact(total)}`}
          done={progress.arrived === total && !behind}
        />
      </ol>
      <Segments progress={progress} total={total} classic={classic} />
    </>
  );
}

function Step(props: { label: string; value: number | string | undefined; done: boolean }): JSX.Element {
  return (
    <li class={props.done ? "done" : "pending"}>
      <span class="mark" aria-hidden="true">
        {props.done ? "✓" : "…"}
      </span>
      <b>{props.value ?? "–"}</b>
      <span class="soft">{props.label}</span>
    </li>
  );
}

function Segments(props: { progress: Progress; total: number; classic: boolean }): JSX.Element | null {
  const { progress, total } = props;
  if (total === 0) return <div class="tile-note">no members</div>;
  const parts = [
    { key: "arrived", value: progress.arrived, words: props.classic ? "ready" : "at the target epoch" },
    { key: "revoking", value: progress.revoking, words: "revoking partitions" },
    { key: "waiting", value: progress.waiting, words: "waiting for partitions" },
    { key: "others", value: progress.others, words: props.classic ? "awaited" : "still at an older epoch" },
  ].filter((one) => one.value > 0);
  const text = parts.map((one) => `${exact(one.value)} ${one.words}`).join(", ");
  return (
    <>
      <div class="segments" aria-hidden="true">
        {parts.map((one) => (
          <div key={one.key} class={`segment ${one.key}`} style={{ flexGrow: String(one.value) }} />
        ))}
      </div>
      <div class="tile-note">{text}</div>
    </>
  );
}
