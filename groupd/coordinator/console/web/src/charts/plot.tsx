// uPlot as a component: draws lines, and nothing else. It is drawn again when its size, its values or the colours change.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { useStore } from "../data/store.ts";
import { moment, short } from "../format.ts";
import { colour, colours } from "../theme.ts";
import { type Band, bandPlace, BOTTOM, tickTexts, timeTicks, TOP } from "./time_axis.tsx";
import { RIGHT, scaleOf, type TimeRange, type TimeScale } from "./timeline.ts";

export interface Line {
  name: string;
  values: (number | null)[];
  // Which colour of the palette; without it, its place in the list.
  colour?: number;
  // Other than the rest: the custom properties of its colour and of the area below it.
  tone?: string;
  wash?: string;
  thickness?: number;
  dash?: number[];
}

interface PlotProps {
  timesMs: number[];
  lines: Line[];
  height: number;
  fill?: boolean;
  // Plots with the same key share uPlot's own cursor and each has its own zoom...
  sync?: string;
  onCursor?(at: number | null): void;
  // ...or a frame has both, and says what is in view.
  frame?: PlotFrame;
}

interface PlotFrame {
  view: TimeRange;
  whole: TimeRange;
  bands: Band[];
}

const PALETTE = 8;

export function Plot(props: PlotProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const palette = useStore(colours);
  const { timesMs, lines, sync, height, frame } = props;
  const names = lines.map((one) => one.name).join("\n");
  const data = useMemo(() => aligned(timesMs, lines), [timesMs, lines]);
  const latest = useRef(data);
  latest.current = data;
  const now = useRef(props);
  now.current = props;
  // Somebody has zoomed in: new values must not take that away. A double click ends it.
  const zoomed = useRef(false);

  useEffect(() => {
    const node = host.current;
    if (node === null) return;
    const made = new uPlot(options(() => now.current, node.clientWidth, () => (zoomed.current = true)), latest.current, node);
    plot.current = made;
    zoomed.current = false;
    made.over.addEventListener("dblclick", () => (zoomed.current = false));
    const watcher = new ResizeObserver(() => {
      if (node.clientWidth > 0) made.setSize({ width: node.clientWidth, height });
    });
    watcher.observe(node);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
    // Another set of lines or colours needs another plot; new values do not.
  }, [names, palette, sync, height]);
  useEffect(() => {
    plot.current?.setData(data, !zoomed.current);
    if (zoomed.current) plot.current?.redraw();
  }, [data]);
  useEffect(() => {
    if (frame !== undefined) plot.current?.setScale("x", { min: frame.view.from / 1000, max: frame.view.to / 1000 });
  }, [frame?.view]);
  return <div ref={host} />;
}

function aligned(timesMs: number[], lines: Line[]): uPlot.AlignedData {
  return [timesMs.map((one) => one / 1000), ...lines.map((one) => one.values)] as uPlot.AlignedData;
}

export function colourOf(line: Line, index: number): string {
  return `s${(line.colour ?? index) % PALETTE}`;
}

// `props`: those of the last time; the width and what is in view change without another plot.
function options(props: () => PlotProps, width: number, onZoom: () => void): uPlot.Options {
  const { lines, height, fill, sync, frame } = props();
  const soft = colour("--soft");
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: soft, grid, ticks: { ...grid, size: 4 }, font };
  return {
    width: Math.max(80, width),
    height,
    legend: { show: false },
    padding: [8, 20, 0, 0],
    cursor: { drag: { x: true, y: false }, points: { size: 6 }, ...(sync === undefined ? {} : { sync: { key: sync } }) },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, (high ?? 1) * 1.08)] } },
    axes: [
      { ...axis, space: 70, size: 30, values: (_plot, ticks) => ticks.map((one) => clock(one, ticks)) },
      { ...axis, size: 52, space: 28, values: (_plot, ticks) => ticks.map((one) => short(one)) },
    ],
    series: [{}, ...lines.map((one, index) => seriesOf(one, index, lines.length, fill === true))],
    hooks: {
      setCursor: [(plot) => props().onCursor?.(plot.cursor.idx ?? null)],
      setSelect: [(plot) => plot.select.width > 0 && onZoom()],
    },
    ...(frame === undefined ? {} : framed(() => props().frame ?? frame, axis)),
  };
}

function seriesOf(line: Line, index: number, count: number, fill: boolean): uPlot.Series {
  const stroke = colour(line.tone ?? `--${colourOf(line, index)}`);
  const wash = line.wash ?? (fill ? "--accent-wash" : undefined);
  return {
    label: line.name,
    stroke,
    width: line.thickness ?? (count > 12 ? 1 : 1.6),
    points: { show: true, size: 5, fill: stroke, filter: (plot: uPlot, at: number) => alone(plot.data[at] as (number | null)[]) },
    ...(line.dash === undefined ? {} : { dash: line.dash }),
    ...(wash === undefined ? {} : { fill: colour(wash) }),
  };
}

// What differs when a frame around the plot has the cursor and the zoom: they are drawn where all charts of the frame's
// timeline draw them, and so are the ticks.
function framed(frame: () => PlotFrame, axis: uPlot.Axis): Partial<uPlot.Options> {
  const seconds = (range: TimeRange): [number, number] => [range.from / 1000, range.to / 1000];
  const scale = (plot: uPlot): TimeScale => scaleOf(plot.width, frame().view);
  return {
    padding: [TOP, RIGHT, 0, 0],
    cursor: { show: false },
    scales: {
      x: { range: () => seconds(frame().view) },
      y: { range: (_plot, _low, high) => [0, Math.max(1, (high ?? 1) * 1.08)] },
    },
    axes: [
      {
        ...axis,
        size: BOTTOM,
        gap: 3,
        splits: (plot) => timeTicks(scale(plot)).map((one) => one / 1000),
        values: (_plot, ticks) => tickTexts(ticks.map((one) => Math.round(one * 1000))),
      },
      {
        ...axis,
        size: (plot) => scale(plot).left,
        space: 28,
        values: (_plot, ticks) => ticks.map((one) => short(one)),
      },
    ],
    hooks: { drawClear: [(plot) => drawBands(plot, frame())] },
  };
}

const TONES = { critical: "--stalled", warning: "--behind", info: "--accent" } as const;

function drawBands(plot: uPlot, frame: PlotFrame): void {
  const { ctx, bbox } = plot;
  const ratio = uPlot.pxRatio;
  const scale = scaleOf(plot.width, frame.view);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const band of frame.bands) {
    const [x, width] = bandPlace(scale, frame.whole, band);
    const tone = TONES[band.tone];
    ctx.fillStyle = colour(`${tone}-wash`);
    ctx.fillRect(bbox.left + x * ratio, bbox.top, width * ratio, bbox.height);
    ctx.fillStyle = colour(tone);
    ctx.fillRect(bbox.left + x * ratio, bbox.top, width * ratio, 3 * ratio);
  }
  ctx.restore();
}

function clock(seconds: number, ticks: number[]): string {
  const text = moment(seconds * 1000, (ticks.at(-1) ?? 0) * 1000);
  const narrow = ticks.length > 1 && (ticks[1] as number) - (ticks[0] as number) < 60;
  return narrow ? text : text.replace(/:\d\d$/, "");
}

// A value between two gaps makes no line, so it is shown as a point.
export function alone(values: (number | null)[]): number[] {
  const found: number[] = [];
  values.forEach((value, at) => {
    if (value !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null) found.push(at);
  });
  return found;
}
