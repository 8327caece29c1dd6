// Who waits for whom, and until when.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Blocked, Deadline } from "../../data/types.ts";
import { exact, place, plural } from "../../format.ts";
import { Card } from "../../ui/parts.tsx";
import { Countdown, Name } from "../../ui/words.tsx";
import { type GroupView, labelOf, until } from "./model.ts";

const SHOWN = 12;
const SHOWN_MAX = 200;

const DEADLINES: Record<string, string> = {
  "consumer-session": "no heartbeat until then: the member is fenced",
  "consumer-rebalance": "a revocation not confirmed until then: the member is fenced",
  "consumer-next-target": "the first heartbeat from then on computes the target",
  "consumer-target": "the target is computed for all who wait for it",
  "consumer-answer": "the next parked heartbeats are answered",
  "consumer-patience": "parked heartbeats are answered without the new target",
  "share-session": "no heartbeat until then: the member is removed",
  "classic-session": "no heartbeat until then: the member is removed",
  "classic-join": "the rebalance goes on without members that have not joined",
  "classic-sync": "members that have not synchronized are removed",
};

interface Props {
  view: GroupView;
  labels: ReadonlyMap<string, string>;
}

export function Waits(props: Props): JSX.Element {
  const { blocked } = props.view.snapshot.group;
  const title = blocked.length === 0 ? "Nobody waits" : "Who waits for whom";
  return (
    <Card id="waits" title={title} aside={blocked.length > 0 && plural(blocked.length, "wait")}>
      {blocked.length === 0 ? (
        <p class="soft">The group waits for nothing: every member has what its target says.</p>
      ) : (
        <Capped items={blocked} render={(one, at) => <Wait key={at} wait={one} {...props} />} />
      )}
      <Deadlines {...props} />
    </Card>
  );
}

function Capped<T>(props: { items: T[]; render(item: T, at: number): JSX.Element }): JSX.Element {
  const [all, setAll] = useState(false);
  const shown = props.items.slice(0, all ? SHOWN_MAX : SHOWN);
  const hidden = props.items.length - shown.length;
  return (
    <>
      <ul class="waits">{shown.map(props.render)}</ul>
      {hidden > 0 && !all && (
        <button type="button" class="quiet" onClick={() => setAll(true)}>
          Show {exact(Math.min(hidden, SHOWN_MAX - SHOWN))} more
        </button>
      )}
      {hidden > 0 && all && <p class="soft">{hidden === 1 ? "1 more is" : `${exact(hidden)} more are`} not shown.</p>}
    </>
  );
}

function Wait(props: Props & { wait: Blocked }): JSX.Element {
  const { wait, labels, view } = props;
  const partition = wait.topic !== undefined && wait.partition !== undefined ? place(wait.topic, wait.partition) : null;
  return (
    <li>
      {partition !== null ? (
        <div class="chain">
          <b>
            <Name text={labelOf(labels, wait.member_id)} />
          </b>
          <span class="link">waits for</span>
          <span class="pill">
            <Name text={partition} />
          </span>
          {wait.held_by && (
            <>
              <span class="link">which is held by</span>
              <b>
                <Name text={labelOf(labels, wait.held_by)} />
              </b>
              <span class={`pill ${wait.revoking ? "told" : "untold"}`}>
                {wait.revoking ? "told to revoke it" : "not told to revoke it yet"}
              </span>
            </>
          )}
        </div>
      ) : (
        <div class="chain">
          <b>
            <Name text={wait.member_id === "" ? "The group" : labelOf(labels, wait.member_id)} />
          </b>
          <span>{wait.why}</span>
        </div>
      )}
      <span class="left" title={wait.why}>
        <Countdown until={until(view, wait.in_ms)} />
      </span>
    </li>
  );
}

function ownerOf(one: Deadline, labels: ReadonlyMap<string, string>): string {
  if (one.of !== undefined && one.of.length > 0) return one.of.join("-");
  return one.member_id === "" ? "The group" : labelOf(labels, one.member_id);
}

// Sessions of members that send heartbeats are renewed all the time, so the next one is enough.
function Deadlines(props: Props): JSX.Element | null {
  const { view, labels } = props;
  const { deadlines } = view.snapshot.group;
  const isSession = (one: Deadline) => one.kind.endsWith("-session");
  const sessions = deadlines.filter(isSession).sort((a, b) => a.in_ms - b.in_ms);
  const others = deadlines.filter((one) => !isSession(one)).sort((a, b) => a.in_ms - b.in_ms);
  const next = sessions[0];
  if (deadlines.length === 0) return null;
  return (
    <>
      <h3>Deadlines</h3>
      <Capped
        items={next === undefined ? others : [...others, next]}
        render={(one, at) => (
          <li key={`${one.kind}${one.member_id}${at}`}>
            <div class="chain">
              <b>
                <Name text={ownerOf(one, labels)} />
              </b>
              <span class="soft">{DEADLINES[one.kind] ?? one.kind}</span>
              {one === next && sessions.length > 1 && (
                <span class="soft">(the next of {exact(sessions.length)} sessions)</span>
              )}
            </div>
            <span class="left" title={one.kind}>
              <Countdown until={until(view, one.in_ms)} />
            </span>
          </li>
        )}
      />
    </>
  );
}
