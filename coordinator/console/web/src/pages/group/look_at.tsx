// Where to look first: members that hang, consumers that are missing, offsets that somebody has set back.
import type { JSX } from "preact";
import { duration, exact, place, plural } from "../../format.ts";
import { groupHash } from "../../router.ts";
import { Notice } from "../../ui/parts.tsx";
import { Name } from "../../ui/words.tsx";
import { type GroupView, labelOf, silentMembers, type SilentMember } from "./model.ts";

const SHOWN = 3;
const PARTITIONS_SHOWN = 4;

export function LookAt(props: { view: GroupView; labels: ReadonlyMap<string, string> }): JSX.Element {
  const { group, lag } = props.view.snapshot;
  const silent = silentMembers(props.view.snapshot);
  return (
    <>
      {silent.slice(0, SHOWN).map((one) => (
        <Silent key={one.member.member_id} one={one} label={labelOf(props.labels, one.member.member_id)} />
      ))}
      {silent.length > SHOWN && (
        <Notice tone="warning">
          {silent.length === SHOWN + 1 ? "1 more member has" : `${exact(silent.length - SHOWN)} more members have`} not committed for
          a minute either: see Members.
        </Notice>
      )}
      {lag.judgement === "stopped" && group.members.length === 0 && (
        <Notice tone="warning">Records wait, and the group has no members. Are its consumers running?</Notice>
      )}
      {lag.judgement === "rewound" && (
        <Notice tone="warning">
          Records are read again, because a committed offset has gone back.{" "}
          <a href={groupHash(group.group_id, "offsets")}>Who moved it, and how to restore it</a>
        </Notice>
      )}
    </>
  );
}

function Silent(props: { one: SilentMember; label: string }): JSX.Element {
  const { member, silentMs, lag, partitions } = props.one;
  const names = partitions.slice(0, PARTITIONS_SHOWN).map((row) => place(row.topic, row.partition));
  const more = partitions.length - names.length;
  return (
    <Notice tone="warning">
      <b>
        <Name text={props.label} />
      </b>{" "}
      at <b>{member.client_host.replace(/^\//, "")}</b> sends heartbeats, but has committed nothing for {duration(silentMs)}, although{" "}
      {lag === 1 ? "1 record waits" : `${exact(lag)} records wait`}
      {names.length > 0 && ` in ${names.join(", ")}${more > 0 ? ` and ${plural(more, "more partition")}` : ""}`}. Does it poll?
    </Notice>
  );
}
