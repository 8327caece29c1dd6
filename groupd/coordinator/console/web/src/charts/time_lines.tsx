// Lines over the time of a timeline: the sum with the area below it, and what it consists of as thin lines.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { useStore } from "../data/store.ts";
import { exact, short } from "../format.ts";
import { AsTable, type TableData } from "./as_table.tsx";
import { type Line, Plot } from "./plot.tsx";
import type { Band } from "./time_axis.tsx";
import { TimeFrame, useWidth } from "./time_frame.tsx";
import type { TimeRange, Timeline } from "./timeline.ts";
import type { TipRow } from "./tip.tsx";
import { utc } from "./utc.ts";

interface Part {
  name: string;
  values: (number | null)[];
}

interface TimeLinesProps {
  label: string;
  name: string;
  // What the sum is called, and what is counted.
  sum: string;
  unit: string;
  time: Timeline;
  height: number;
  // Values in even steps over the whole time.
  total: (number | null)[];
  parts: Part[];
  // Parts that are not here.
  others: number;
  // Whether the parts are drawn; the tip and the table have them always.
  thin: boolean;
  hot: ReadonlySet<string>;
  // The custom property of the colour, and of the area.
  tone: string;
  wash: string;
  bands: Band[];
}

const NAMED_MAX = 5;
const TABLE_ROWS_MAX = 60;

export function TimeLines(props: TimeLinesProps): JSX.Element {
  const { time, height, total, parts, hot, bands } = props;
  const [host, width] = useWidth();
  const view = useStore(time.view);
  const step = (time.whole.to - time.whole.from) / Math.max(1, total.length);
  const timesMs = useMemo(() => total.map((_one, at) => time.whole.from + (at + 0.5) * step), [total]);
  const lines = useMemo(() => linesOf(props), [total, parts, hot]);
  const frame = useMemo(() => ({ view, whole: time.whole, bands }), [view, bands]);
  return (
    <>
      <TimeFrame {...{ time, host, width, height }} label={props.label} tip={(ms) => tipOf(props, stepAt(time.whole, step, ms))}>
        <Plot timesMs={timesMs} lines={lines} height={height} frame={frame} />
      </TimeFrame>
      <AsTable label={props.name} summary="As a table" numbersFrom={1} table={() => tableOf(props, step)} />
    </>
  );
}

function stepAt(whole: TimeRange, step: number, ms: number): number {
  return Math.max(0, Math.floor(Math.min(ms - whole.from, whole.to - whole.from - 1) / step));
}

// What stands out is drawn above all others.
function linesOf(props: TimeLinesProps): Line[] {
  const { hot } = props;
  const thin = props.thin ? props.parts : [];
  const ordinary = thin.filter((one) => !hot.has(one.name));
  return [
    { name: props.sum, values: props.total, tone: props.tone, wash: props.wash, thickness: 1.75 },
    ...ordinary.map((one) => ({ ...one, tone: "--s7", thickness: 0.8 })),
    ...thin.filter((one) => hot.has(one.name)).map((one) => ({ ...one, tone: "--stalled", thickness: 1.6, dash: [5, 3] })),
  ];
}

function tipOf(props: TimeLinesProps, at: number): TipRow[] {
  const sum = props.total[at] ?? null;
  const known = props.parts.flatMap(({ name, values }) => {
    const value = values[at] ?? null;
    return value === null ? [] : [{ name, value }];
  });
  known.sort((a, b) => b.value - a.value);
  const named = known.slice(0, NAMED_MAX);
  const more = known.length - named.length + props.others;
  return [
    { name: props.sum, value: sum === null ? "not known" : `${exact(sum)} ${props.unit}`, tone: "strong" },
    ...named.map(({ name, value }) => ({ name, value: exact(value), ...(props.hot.has(name) ? { tone: "hot" as const } : {}) })),
    ...(more > 0 ? [{ name: `${more} more`, value: "" }] : []),
  ];
}

function tableOf(props: TimeLinesProps, step: number): TableData {
  const every = Math.max(1, Math.ceil(props.total.length / TABLE_ROWS_MAX));
  const chosen = props.total.map((_one, at) => at).filter((at) => at % every === 0);
  return {
    head: ["Until", "All partitions", ...props.parts.map((one) => one.name)],
    rows: chosen.map((at) => [
      utc(props.time.whole.from + (at + 1) * step),
      exact(props.total[at]),
      ...props.parts.map((one) => short(one.values[at])),
    ]),
  };
}
