// The parts that pictures of bars over time have in common: a line for each tick with its time below, and names at the left.
import type { JSX } from "preact";
import { ticksBetween } from "./strip.tsx";
import { type TimeRange, type TimeScale, xOf } from "./timeline.ts";
import { utcTick } from "./utc.ts";

export const TOP = 8;
export const BOTTOM = 24;
const TICK_SPACE = 70;
const LETTER = 6.4;

export function timeTicks(scale: TimeScale): number[] {
  return ticksBetween(scale.from, scale.to, Math.max(2, scale.inner / TICK_SPACE));
}

export function tickTexts(ticks: number[]): string[] {
  const step = ticks.length > 1 ? (ticks[1] as number) - (ticks[0] as number) : 60_000;
  return ticks.map((one) => utcTick(one, step));
}

export function TimeAxis(props: { scale: TimeScale; height: number }): JSX.Element {
  const { scale } = props;
  const bottom = props.height - BOTTOM;
  const ticks = timeTicks(scale);
  const texts = tickTexts(ticks);
  return (
    <g>
      {ticks.map((one, index) => {
        const x = scale.left + xOf(scale, one);
        return (
          <g key={one}>
            <line class="grid" x1={x} x2={x} y1={TOP} y2={bottom} />
            <text class="tick" x={x} y={bottom + 17} text-anchor="middle">
              {texts[index]}
            </text>
          </g>
        );
      })}
    </g>
  );
}

// A name that is too long loses its beginning: names of members and partitions differ at the end.
export function RowName(props: { scale: TimeScale; text: string; y: number; tone?: string }): JSX.Element {
  const { left } = props.scale;
  const room = Math.floor((left - 14) / LETTER);
  const text = props.text.length > room ? `…${props.text.slice(props.text.length - room + 1)}` : props.text;
  return (
    <text class={`tick ${props.tone ?? ""}`} x={left - 8} y={props.y} text-anchor="end">
      {text}
    </text>
  );
}

// A time at which something was found.
export interface Band {
  since: number;
  // null: until the end.
  until: number | null;
  tone: "critical" | "warning" | "info";
}

// Left end and width in pixels. A moment is a thin line.
export function bandPlace(scale: TimeScale, whole: TimeRange, band: Band): [number, number] {
  const x = xOf(scale, band.since);
  return [x, Math.max(2, xOf(scale, band.until ?? whole.to) - x)];
}

export function Bands(props: { scale: TimeScale; whole: TimeRange; bands: Band[]; height: number }): JSX.Element {
  return (
    <>
      {props.bands.map((one, index) => {
        const [x, width] = bandPlace(props.scale, props.whole, one);
        return (
          <g key={index} class={`band ${one.tone}`}>
            <rect class="wash" x={x} width={width} y={TOP} height={props.height - TOP - BOTTOM} />
            <rect class="edge" x={x} width={width} y={TOP} height="3" />
          </g>
        );
      })}
    </>
  );
}
