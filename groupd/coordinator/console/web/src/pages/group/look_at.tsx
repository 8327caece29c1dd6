// Where to look first: members that hang, consumers that are missing, offsets that somebody has set back.
import type { JSX } from "preact";
import type { GroupSnapshot } from "../../data/types.ts";
import { exact } from "../../format.ts";
import { groupHash } from "../../router.ts";
import { Notice } from "../../ui/parts.tsx";

const SHOWN = 3;

// What is wrong is in the words of the server, which judges.
export function LookAt(props: { snapshot: GroupSnapshot }): JSX.Element {
  const { group, lag } = props.snapshot;
  const more = lag.silent_count - SHOWN;
  return (
    <>
      {lag.silent.slice(0, SHOWN).map((one) => (
        <Notice key={one.member_id} tone="error" quiet>
          {one.text}. Does it poll?
        </Notice>
      ))}
      {more > 0 && (
        <Notice tone="error" quiet>{more === 1 ? "1 more member commits" : `${exact(more)} more members commit`} nothing either: see Members.</Notice>
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
