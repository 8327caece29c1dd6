// Lag over time: all partitions together, and the largest ones, under one cursor.
import type { JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { Lines } from "../../charts/lines.tsx";
import type { LagHistory } from "../../data/types.ts";
import { exact, place } from "../../format.ts";
import { Card } from "../../ui/parts.tsx";
import { sorted } from "../../ui/sort.ts";
import type { GroupView } from "./model.ts";

const SHOWN_LEAST = 15;

// Without the time before anything was known, so that a young history is not a corner of an empty chart.
export function fromFirst(history: LagHistory): LagHistory {
  const known = history.total.findIndex((one) => one !== null);
  const first = Math.max(0, Math.min(known, history.total.length - SHOWN_LEAST));
  if (first === 0) return history;
  return {
    ...history,
    times_ms: history.times_ms.slice(first),
    total: history.total.slice(first),
    partitions: history.partitions.map((one) => ({ ...one, lag: one.lag.slice(first) })),
  };
}

const NO_HISTORY: LagHistory = { times_ms: [], total: [], partitions: [] };

export function Lag(props: { view: GroupView }): JSX.Element {
  // A group that has committed nothing has none.
  const history = useMemo(() => fromFirst(props.view.snapshot.lag.history ?? NO_HISTORY), [props.view.snapshot]);
  const total = useMemo(() => [{ name: "all partitions", values: history.total }], [history]);
  // A partition keeps its colour while the page is open; those that came with the largest lag have different ones.
  const colours = useRef(new Map<string, number>());
  const parts = useMemo(() => {
    const lines = history.partitions.map((one) => {
      const name = place(one.topic, one.partition);
      const colour = colours.current.get(name) ?? colours.current.size;
      colours.current.set(name, colour);
      return { name, values: one.lag, colour };
    });
    // The order of the server changes whenever one overtakes another, and would make another chart.
    return sorted(lines, (one) => one.name, "ascending");
  }, [history]);
  return (
    <Card id="lag" title="Lag" aside="records that are not committed yet">
      {history.total.every((one) => one === null) ? (
        <p class="soft">The group has committed nothing, so its lag is not known.</p>
      ) : (
        <>
          <Lines
            label="Lag of all partitions"
            unit="records"
            timesMs={history.times_ms}
            lines={total}
            sync="lag"
            height={150}
            fill
          />
          {parts.length > 0 && (
            <Lines
              label="Lag by partition"
              unit="records"
              timesMs={history.times_ms}
              lines={parts}
              sync="lag"
              height={180}
            />
          )}
          {(history.left_out ?? 0) > 0 && (
            <p class="soft">
              {history.left_out === 1 ? "1 more partition with less lag is" : `${exact(history.left_out)} more partitions with less lag are`}{" "}
              not drawn.
            </p>
          )}
        </>
      )}
    </Card>
  );
}
