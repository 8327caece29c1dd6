// Lag over time: all partitions together, and the largest ones, under one cursor.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Lines } from "../../charts/lines.tsx";
import { place } from "../../format.ts";
import { Card } from "../../ui/parts.tsx";
import type { GroupView } from "./model.ts";

export function Lag(props: { view: GroupView }): JSX.Element {
  const history = props.view.snapshot.history ?? null;
  const total = useMemo(() => (history === null ? [] : [{ name: "all partitions", values: history.total }]), [history]);
  const parts = useMemo(
    () => (history?.partitions ?? []).map((one) => ({ name: place(one.topic, one.partition), values: one.lag })),
    [history],
  );
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
