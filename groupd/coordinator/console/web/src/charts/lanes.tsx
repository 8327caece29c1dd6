// A lane for each member: when it was in the group, in which state, and how it left; above, every rebalance.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { useStore } from "../data/store.ts";
import { fenced, laneColour, type LanesData, type Life, lanesTable, lanesTip } from "./lanes_data.ts";
import { AsTable } from "./as_table.tsx";
import { type Band, Bands, BOTTOM, RowName, TimeAxis, TOP } from "./time_axis.tsx";
import { TimeFrame, useWidth } from "./time_frame.tsx";
import { scaleOf, type TimeRange, type Timeline, type TimeScale, xOf } from "./timeline.ts";

interface LanesProps {
  label: string;
  name: string;
  time: Timeline;
  data: LanesData;
  bands: Band[];
}

const ROW = 22;
const BAR = 14;
const LANES_TOP = TOP + ROW;
const NEAR_PX = 4;
// Closer ends than this have a thin mark each, so that all of them are seen.
const CROWDED_PX = 12;

export function Lanes(props: LanesProps): JSX.Element {
  const { data, time, bands } = props;
  const [host, width] = useWidth();
  const view = useStore(time.view);
  const height = LANES_TOP + data.lanes.length * ROW + 6 + BOTTOM;
  const scale = useMemo(() => scaleOf(width, view), [width, view]);
  const picture = useMemo(() => <Picture {...{ data, bands, scale, height, whole: time.whole }} />, [data, bands, scale]);
  const tip = (ms: number, y: number) => {
    const lane = Math.floor((y - LANES_TOP) / ROW);
    const near = ((view.to - view.from) / scale.inner) * NEAR_PX;
    return lanesTip(data, time.whole, ms, lane >= 0 && lane < data.lanes.length ? lane : null, near);
  };
  const rows = { top: TOP, size: ROW, count: data.lanes.length + 1 };
  return (
    <>
      <TimeFrame {...{ time, host, width, height, rows, tip }} label={props.label}>
        {picture}
      </TimeFrame>
      <AsTable label={props.name} summary="As a table" numbersFrom={Infinity} table={() => lanesTable(data)} />
    </>
  );
}

function laneTop(lane: number): number {
  return LANES_TOP + lane * ROW + (ROW - BAR) / 2;
}

interface PictureProps {
  data: LanesData;
  bands: Band[];
  scale: TimeScale;
  height: number;
  whole: TimeRange;
}

function Picture(props: PictureProps): JSX.Element {
  const { data, scale, height, whole } = props;
  return (
    <svg class="over-time" width={scale.width} height={height} aria-hidden="true">
      <TimeAxis scale={scale} height={height} />
      <RowName scale={scale} text="rebalances" y={TOP + 15} tone="quiet" />
      {data.lanes.map((name, lane) => (
        <g key={lane}>
          <RowName scale={scale} text={name} y={laneTop(lane) + 11} />
          <line class="grid" x1={scale.left} x2={scale.left + scale.inner} y1={laneTop(lane) - 4} y2={laneTop(lane) - 4} />
        </g>
      ))}
      {/* An inner svg cuts off what is outside of it. */}
      <svg x={scale.left} y="0" width={scale.inner} height={height}>
        <Bands scale={scale} whole={whole} bands={props.bands} height={height} />
        {data.marks.map(([since, until], index) => {
          if (since > scale.to || until < scale.from) return null;
          const x = xOf(scale, since);
          const width = Math.max(1.5, xOf(scale, until) - x);
          return (
            <g key={index}>
              <rect class="rebalance" x={x} width={width} y={TOP + 5} height={ROW - 9} />
              <rect class="shade" x={x} width={width} y={LANES_TOP} height={height - LANES_TOP - BOTTOM} />
            </g>
          );
        })}
        <Lives lives={data.lives} scale={scale} whole={whole} />
      </svg>
    </svg>
  );
}

// The ends are drawn after all bars, so that the next life in the lane does not cover them.
function Lives(props: { lives: Life[]; scale: TimeScale; whole: TimeRange }): JSX.Element {
  const { scale, whole } = props;
  const shown = props.lives.filter((one) => one.joined <= scale.to && (one.ended ?? whole.to) >= scale.from);
  const last = new Map<number, number>();
  return (
    <>
      {shown.map((life) =>
        life.spans.map(([since, until, state], index) => {
          const x = xOf(scale, since);
          const width = Math.max(1, xOf(scale, until ?? whole.to) - x);
          const kind = `lane ${laneColour(life.lane)} ${state}`;
          return <rect key={index} class={kind} x={x} width={width} y={laneTop(life.lane)} height={BAR} />;
        }),
      )}
      {shown.map((life, index) => {
        if (life.ended === null) return null;
        const x = xOf(scale, life.ended);
        const crowded = x - (last.get(life.lane) ?? -CROWDED_PX) < CROWDED_PX;
        last.set(life.lane, x);
        return <End key={index} life={life} x={x} crowded={crowded} />;
      })}
    </>
  );
}

function End(props: { life: Life; x: number; crowded: boolean }): JSX.Element {
  const { life, x, crowded } = props;
  const top = laneTop(life.lane);
  if (!fenced(life)) {
    const width = crowded ? 1 : 3;
    return <rect class={crowded ? "leave thin" : "leave"} x={x - width / 2} y={top - 1} width={width} height={BAR + 2} />;
  }
  if (crowded) return <rect class="fence" x={x - 1} y={top - 1} width="2" height={BAR + 2} />;
  const middle = top + BAR / 2;
  return (
    <g>
      <circle class="fence round" cx={x} cy={middle} r="5.5" />
      <path class="cross" d={`M${x - 2.4} ${middle - 2.4}l4.8 4.8m0-4.8l-4.8 4.8`} />
    </g>
  );
}
