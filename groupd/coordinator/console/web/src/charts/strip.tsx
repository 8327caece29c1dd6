// Spans on one line of time, with the times below. What they mean is told in the list beside it.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { moment } from "../format.ts";

export interface Span {
  since: number;
  // null: it has not ended.
  until: number | null;
  text: string;
}

const HEIGHT = 44;
const BAR = 20;
const STEPS_S = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

export function ticksBetween(from: number, to: number, most: number): number[] {
  const least = (to - from) / Math.max(1, most) / 1000;
  const step = (STEPS_S.find((one) => one >= least) ?? Math.ceil(least / 604_800) * 604_800) * 1000;
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

export function Strip(props: { label: string; spans: Span[]; now: number }): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const node = host.current;
    if (node === null) return;
    const watcher = new ResizeObserver(() => setWidth(Math.max(120, node.clientWidth)));
    watcher.observe(node);
    return () => watcher.disconnect();
  }, []);
  const first = props.spans.reduce((least, one) => Math.min(least, one.since), props.now - 60_000);
  const x = (ms: number) => 4 + ((ms - first) / Math.max(1, props.now - first)) * (width - 8);
  return (
    <div ref={host} class="strip">
      <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={`${props.label}: ${props.spans.length}`}>
        <line class="base" x1="4" x2={width - 4} y1={BAR + 4.5} y2={BAR + 4.5} />
        {ticksBetween(first, props.now, width / 90).map((at) => (
          <g key={at}>
            <line class="base" x1={x(at)} x2={x(at)} y1={BAR + 4} y2={BAR + 8} />
            <text x={Math.max(24, Math.min(width - 24, x(at)))} y={HEIGHT - 6} text-anchor="middle">
              {moment(at, props.now).replace(/:00$/, "")}
            </text>
          </g>
        ))}
        {props.spans.map((one) => {
          const start = x(one.since);
          return (
            <rect
              key={one.since}
              class={one.until === null ? "span running" : "span"}
              x={Math.min(start, width - 7)}
              y="4"
              width={Math.max(3, x(one.until ?? props.now) - start)}
              height={BAR - 2}
              rx="1"
            >
              <title>{`${moment(one.since, props.now)}: ${one.text}`}</title>
            </rect>
          );
        })}
      </svg>
    </div>
  );
}
