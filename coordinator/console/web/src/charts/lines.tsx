// Lines over time with uPlot. Charts with the same `sync` share one cursor. What stands under it is said in a line of
// text, and a table has the same values for those who do not see the picture.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { useStore } from "../data/store.ts";
import { exact, moment, short } from "../format.ts";
import { colour, colours } from "../theme.ts";

export interface Line {
  name: string;
  values: (number | null)[];
  // Which colour of the palette; without it, its place in the list.
  colour?: number;
}

export interface LinesProps {
  label: string;
  unit: string;
  timesMs: number[];
  lines: Line[];
  sync: string;
  height: number;
  fill?: boolean;
}

const PALETTE = 8;
const NAMED_MAX = 6;
const TABLE_ROWS_MAX = 60;

export function Lines(props: LinesProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const palette = useStore(colours);
  const { timesMs, lines, sync, height } = props;
  const names = lines.map((one) => one.name).join("\n");
  const data = useMemo(() => aligned(timesMs, lines), [timesMs, lines]);
  const latest = useRef(data);
  latest.current = data;
  // Somebody has zoomed in: new values must not take that away. A double click ends it.
  const zoomed = useRef(false);

  useEffect(() => {
    const node = host.current;
    if (node === null) return;
    const made = new uPlot(options(props, node.clientWidth, setAt, () => (zoomed.current = true)), latest.current, node);
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

  return (
    <figure class="lines">
      <div ref={host} class="plot" style={{ height: `${height}px` }} role="img" aria-label={summary(props)} />
      <Reading {...props} at={at} />
      <AsTable {...props} />
    </figure>
  );
}

function aligned(timesMs: number[], lines: Line[]): uPlot.AlignedData {
  return [timesMs.map((one) => one / 1000), ...lines.map((one) => one.values)] as uPlot.AlignedData;
}

function summary(props: LinesProps): string {
  const ends = props.lines.slice(0, NAMED_MAX).map((one) => `${one.name} ${exact(one.values.at(-1))}`);
  return `${props.label}; now: ${ends.join(", ")}`;
}

function colourOf(line: Line, index: number): string {
  return `s${(line.colour ?? index) % PALETTE}`;
}

function options(
  props: LinesProps,
  width: number,
  onCursor: (at: number | null) => void,
  onZoom: () => void,
): uPlot.Options {
  const soft = colour("--soft");
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: soft, grid, ticks: { ...grid, size: 4 }, font };
  return {
    width: Math.max(80, width),
    height: props.height,
    legend: { show: false },
    padding: [8, 20, 0, 0],
    cursor: { sync: { key: props.sync }, drag: { x: true, y: false }, points: { size: 6 } },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, (high ?? 1) * 1.08)] } },
    axes: [
      { ...axis, space: 70, size: 30, values: (_plot, ticks) => ticks.map((one) => clock(one, ticks)) },
      { ...axis, size: 52, space: 28, values: (_plot, ticks) => ticks.map((one) => short(one)) },
    ],
    series: [
      {},
      ...props.lines.map((one, index) => ({
        label: one.name,
        stroke: colour(`--${colourOf(one, index)}`),
        width: props.lines.length > 12 ? 1 : 1.6,
        points: {
          show: true,
          size: 5,
          fill: colour(`--${colourOf(one, index)}`),
          filter: (plot: uPlot, at: number) => alone(plot.data[at] as (number | null)[]),
        },
        ...(props.fill ? { fill: colour("--accent-wash") } : {}),
      })),
    ],
    hooks: {
      setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)],
      setSelect: [(plot) => plot.select.width > 0 && onZoom()],
    },
  };
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

// The values under the cursor, or the newest.
function Reading(props: LinesProps & { at: number | null }): JSX.Element {
  const at = props.at ?? props.timesMs.length - 1;
  const time = props.timesMs[at];
  const found = props.lines
    .map((one, index) => ({ name: one.name, key: colourOf(one, index), value: one.values[at] ?? null }))
    .filter((one) => one.value !== null)
    .sort((a, b) => (b.value as number) - (a.value as number));
  return (
    <figcaption class="reading">
      <span class="soft">{time === undefined ? "no data" : moment(time)}</span>
      {found.slice(0, NAMED_MAX).map((one) => (
        <span key={one.name} class="entry">
          <i class={`key ${one.key}`} aria-hidden="true" />
          {one.name} <b title={exact(one.value)}>{short(one.value)}</b>
        </span>
      ))}
      {found.length > NAMED_MAX && <span class="soft">and {found.length - NAMED_MAX} more</span>}
      {found.length === 0 && <span class="soft">not known</span>}
    </figcaption>
  );
}

function AsTable(props: LinesProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const step = Math.max(1, Math.ceil(props.timesMs.length / TABLE_ROWS_MAX));
  const rows = props.timesMs.map((_time, at) => at).filter((at) => at % step === 0);
  return (
    <details class="as-table" onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>{props.label} as a table</summary>
      {open && (
        <div class="table-box box-size" tabIndex={0} role="group" aria-label={`${props.label} as a table`}>
          <table class="auto">
            <thead>
              <tr>
                <th scope="col">Time</th>
                {props.lines.map((one) => (
                  <th scope="col" class="number" key={one.name}>
                    {one.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((at) => (
                <tr key={at}>
                  <th scope="row">{moment(props.timesMs[at] as number)}</th>
                  {props.lines.map((one) => (
                    <td class="number" key={one.name}>
                      {exact(one.values[at])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
