// Lag over time: all partitions together, and the largest ones, under one cursor.
import type { JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { Lines } from "../../charts/lines.tsx";
import { place } from "../../format.ts";
import { Card } from "../../ui/parts.tsx";
import { sorted } from "../../ui/sort.ts";
import type { GroupView } from "./model.ts";

export function Lag(props: { view: GroupView }): JSX.Element {
  const history = props.view.snapshot.history ?? null;
  const total = useMemo(() => (history === null ? [] : [{ name: "all partitions", values: history.total }]), [history]);
  // A partition keeps its colour while the page is open; those that came with the largest lag have different ones.
  const colours = useRef(new Map<string, number>());
  const parts = useMemo(() => {
    const lines = (history?.partitions ?? []).map((one) => {
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
      {history === null || history.times_ms.length === 0 ? (
        <p class="soft">No lag has been seen yet.</p>
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
        </>
      )}
    </Card>
  );
}
