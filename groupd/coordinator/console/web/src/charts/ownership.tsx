// A line for each partition, in the colour of the member that reads it; red where nobody does.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { useStore } from "../data/store.ts";
import { AsTable } from "./as_table.tsx";
import { laneColour } from "./lanes_data.ts";
import { ownershipTable, ownershipTip, type OwnershipData, placeName } from "./ownership_data.ts";
import { BOTTOM, RowName, TimeAxis, TOP } from "./time_axis.tsx";
import { TimeFrame, useWidth } from "./time_frame.tsx";
import { scaleOf, type TimeRange, type Timeline, type TimeScale, xOf } from "./timeline.ts";

interface OwnershipProps {
  label: string;
  name: string;
  time: Timeline;
  data: OwnershipData;
  // Names of partitions that stand out.
  hot: ReadonlySet<string>;
}

const ROW = 16;
const NARROW_ROW = 10;
const MANY = 40;

export function Ownership(props: OwnershipProps): JSX.Element {
  const { data, time, hot } = props;
  const [host, width] = useWidth();
  const view = useStore(time.view);
  const row = data.places.length > MANY ? NARROW_ROW : ROW;
  const height = TOP + data.places.length * row + 4 + BOTTOM;
  const scale = useMemo(() => scaleOf(width, view), [width, view]);
  const picture = useMemo(() => <Picture {...{ data, hot, scale, height, row, whole: time.whole }} />, [data, hot, scale]);
  const tip = (ms: number, y: number) => ownershipTip(data, time.whole, ms, Math.floor((y - TOP) / row));
  const rows = { top: TOP, size: row, count: data.places.length };
  return (
    <>
      <TimeFrame {...{ time, host, width, height, rows, tip }} label={props.label}>
        {picture}
      </TimeFrame>
      <AsTable
        label={props.name}
        summary="As a table"
        numbersFrom={Infinity}
        table={() => ownershipTable(data, time.whole)}
      />
    </>
  );
}

interface PictureProps {
  data: OwnershipData;
  hot: ReadonlySet<string>;
  scale: TimeScale;
  height: number;
  row: number;
  whole: TimeRange;
}

function Picture(props: PictureProps): JSX.Element {
  const { data, scale, height, row, whole } = props;
  const from = xOf(scale, whole.from);
  const all = xOf(scale, whole.to) - from;
  return (
    <svg class="over-time" width={scale.width} height={height} aria-hidden="true">
      <TimeAxis scale={scale} height={height} />
      {data.places.map((place, index) => {
        // Narrow rows have no room for every name.
        if (row < ROW && index % 2 === 1) return null;
        const name = placeName(place);
        const tone = props.hot.has(name) ? "hot" : "";
        return <RowName key={name} scale={scale} text={name} y={TOP + index * row + row - 4} tone={tone} />;
      })}
      <svg x={scale.left} y="0" width={scale.inner} height={height}>
        {data.places.map((place, index) => (
          <rect key={placeName(place)} class="unowned" x={from} width={all} y={TOP + index * row} height={row - 1} />
        ))}
        {data.holdings.map(([place, life, since, until], index) => {
          const end = until ?? whole.to;
          if (since > scale.to || end < scale.from) return null;
          const x = xOf(scale, since);
          return (
            <rect
              key={index}
              class={`own ${laneColour(data.lives[life]?.lane ?? 0)}`}
              x={x}
              width={Math.max(0.8, xOf(scale, end) - x - 0.6)}
              y={TOP + place * row}
              height={row - 1}
            />
          );
        })}
      </svg>
    </svg>
  );
}
