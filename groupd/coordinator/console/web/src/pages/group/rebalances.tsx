// When the group has rebalanced, and why: a strip of time, and each rebalance with its steps.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Strip } from "../../charts/strip.tsx";
import type { Rebalance } from "../../data/types.ts";
import { brief, duration, exact, plural } from "../../format.ts";
import { Card } from "../../ui/parts.tsx";
import { Ago, At, Name } from "../../ui/words.tsx";
import { type GroupView, labelOf } from "./model.ts";

interface Props {
  view: GroupView;
  labels: ReadonlyMap<string, string>;
}

const SHOWN = 8;
const STEPS_MAX = 300;

export function Rebalances(props: Props): JSX.Element {
  const { snapshot } = props.view;
  const found = snapshot.rebalances;
  const [all, setAll] = useState(false);
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const flip = (one: Rebalance, open: boolean) => {
    if (opened.has(one.started_ms) === open) return;
    const next = new Set(opened);
    if (open) next.add(one.started_ms);
    else next.delete(one.started_ms);
    setOpened(next);
  };
  const shown = found.slice(0, all ? found.length : SHOWN);
  return (
    <Card id="rebalances" title="Rebalances" aside={plural(found.length, "rebalance")}>
      {found.length === 0 && <p class="soft">None since the daemon started.</p>}
      {found.length > 0 && (
        <Strip
          label="Rebalances over time"
          now={snapshot.lag.now_ms}
          spans={found.map((one) => ({ since: one.started_ms, until: one.ended_ms, text: brief(one.cause) }))}
        />
      )}
      <ol class="rebalances">
        {shown.map((one) => (
          <li key={one.started_ms}>
            <details
              open={opened.has(one.started_ms)}
              onToggle={(event) => flip(one, (event.currentTarget as HTMLDetailsElement).open)}
            >
              <Line one={one} skew={props.view.skew} />
              {opened.has(one.started_ms) && <Steps one={one} {...props} />}
            </details>
          </li>
        ))}
      </ol>
      {!all && found.length > SHOWN && (
        <button type="button" class="quiet" onClick={() => setAll(true)}>
          Show {exact(found.length - SHOWN)} more
        </button>
      )}
    </Card>
  );
}

function Line(props: { one: Rebalance; skew: number }): JSX.Element {
  const { one } = props;
  return (
    <summary>
      <span class="when">
        <Ago ms={one.started_ms} skew={props.skew} />
      </span>
      <span class="cause">{brief(one.cause)}</span>
      <span class="soft facts">
        epoch {one.epoch} · {one.ended_ms === null ? <b class="running">under way</b> : duration(one.ended_ms - one.started_ms)}
        {one.moved_partitions !== null && ` · ${plural(one.moved_partitions, "partition")} moved`}
      </span>
    </summary>
  );
}

function Steps(props: Props & { one: Rebalance }): JSX.Element {
  const { one, labels } = props;
  return (
    <div class="steps-of">
      <p>{one.sentence}</p>
      <ol>
        {one.steps.slice(0, STEPS_MAX).map((step, at) => (
          <li key={at}>
            <span class="soft when" title={step.kind}>
              <At ms={step.timestamp_ms} />
            </span>
            <span class="soft offset">+{duration(step.timestamp_ms - one.started_ms)}</span>
            <span>
              {step.member_id !== "" && (
                <b>
                  <Name text={step.client_id || labelOf(labels, step.member_id)} />{" "}
                </b>
              )}
              {step.text}
            </span>
          </li>
        ))}
      </ol>
      {one.steps.length > STEPS_MAX && <p class="soft">The last {exact(one.steps.length - STEPS_MAX)} of them are not shown.</p>}
    </div>
  );
}
