// The frame of a chart over time: pointer and keys move the cursor and zoom, in all charts of the same timeline at once.
import type { ComponentChildren, JSX, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useStore } from "../data/store.ts";
import { Tip, type TipPlace, type TipRow } from "./tip.tsx";
import { scaleOf, type Timeline, timeAt, type TimeScale, xOf } from "./timeline.ts";

interface TimeFrameProps {
  time: Timeline;
  label: string;
  host: RefObject<HTMLDivElement | null>;
  width: number;
  height: number;
  // Where lines of the picture that have a text of their own begin, and how high each is: up and down go through them.
  rows?: { top: number; size: number; count: number };
  tip(ms: number, y: number): TipRow[];
  children: ComponentChildren;
}

interface Point extends TipPlace {
  y: number;
}

const STEPS = 80;
const DRAG_LEAST = 8;

export function useWidth(): [RefObject<HTMLDivElement | null>, number] {
  const host = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const node = host.current;
    if (node === null) return;
    const take = () => setWidth(Math.max(240, node.clientWidth));
    const watcher = new ResizeObserver(take);
    watcher.observe(node);
    take();
    return () => watcher.disconnect();
  }, []);
  return [host, width];
}

export function TimeFrame(props: TimeFrameProps): JSX.Element {
  const { time, host } = props;
  const [point, setPoint] = useState<Point | null>(null);
  const row = useRef(0);
  const start = useRef<number | null>(null);
  const scale = () => scaleOf(props.width, time.view.value);

  const go = (to: Point) => {
    row.current = to.y;
    time.cursor.set(to.ms);
    setPoint(to);
  };
  const moved = (event: PointerEvent) => {
    const { x, y } = within(event);
    if (start.current !== null) time.marked.set(between(scale(), start.current, x));
    go({ ms: timeAt(scale(), x), y, clientX: event.clientX, clientY: event.clientY });
  };
  const pressed = (event: PointerEvent) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    start.current = within(event).x;
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
  };
  const dropped = () => {
    start.current = null;
    time.marked.set(null);
  };
  const released = (event: PointerEvent) => {
    if (start.current === null) return;
    const { from, to } = between(scale(), start.current, within(event).x);
    if (Math.abs(within(event).x - start.current) > DRAG_LEAST) time.zoom(from, to);
    dropped();
  };
  const key = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { from, to } = time.view.value;
    const at = Math.max(from, Math.min(to, time.cursor.value ?? (from + to) / 2));
    const zoomed = ZOOMS[event.key];
    if (zoomed !== undefined) time.zoom(at - (to - from) * zoomed, at + (to - from) * zoomed);
    else if (event.key === "0" || event.key === "Escape") {
      setPoint(null);
      time.reset();
    } else {
      const next = stepped(event.key, at, row.current, props);
      if (next === null) return;
      const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
      const x = scale().left + xOf(scale(), next.ms);
      go({ ...next, clientX: box.left + x, clientY: box.top + (props.rows === undefined ? 30 : next.y) });
    }
    event.preventDefault();
  };
  return (
    <>
      <div
        ref={host}
        class="plot time-frame"
        style={{ height: `${props.height}px` }}
        tabIndex={0}
        role="img"
        aria-label={props.label}
        onPointerMove={moved}
        onPointerDown={pressed}
        onPointerUp={released}
        onPointerCancel={dropped}
        onPointerLeave={() => setPoint(null)}
        onDblClick={() => time.reset()}
        onKeyDown={key}
        onBlur={() => setPoint(null)}
      >
        {props.width > 0 && props.children}
        {props.width > 0 && <Marks time={time} width={props.width} />}
      </div>
      <Tip at={point} rows={point === null ? [] : props.tip(point.ms, point.y)} />
    </>
  );
}

const ZOOMS: Record<string, number> = { "+": 1 / 4, "-": 1 };

// Where a cursor key leads to; null: it is not one.
function stepped(key: string, at: number, y: number, props: TimeFrameProps): { ms: number; y: number } | null {
  const { from, to } = props.time.view.value;
  const sideways = { ArrowLeft: -1, ArrowRight: 1 }[key];
  const step = (to - from) / STEPS;
  const rows = props.rows ?? { top: 0, size: 1, count: 1 };
  const last = rows.top + (rows.count - 0.5) * rows.size;
  const inside = (wanted: number) => Math.max(rows.top + rows.size / 2, Math.min(last, wanted));
  if (sideways !== undefined) return { ms: Math.max(from, Math.min(to, at + sideways * step)), y: inside(y) };
  const upwards = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (upwards === undefined || props.rows === undefined) return null;
  return { ms: at, y: inside(y + upwards * rows.size) };
}

function within(event: PointerEvent): { x: number; y: number } {
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function between(scale: TimeScale, x: number, other: number): { from: number; to: number } {
  return { from: timeAt(scale, Math.min(x, other)), to: timeAt(scale, Math.max(x, other)) };
}

// The cursor, and what is being marked. They move without another drawing of the chart.
function Marks(props: { time: Timeline; width: number }): JSX.Element {
  const view = useStore(props.time.view);
  const cursor = useStore(props.time.cursor);
  const marked = useStore(props.time.marked);
  const scale = scaleOf(props.width, view);
  const at = (ms: number) => scale.left + xOf(scale, ms);
  return (
    <div class="time-marks" aria-hidden="true">
      {cursor !== null && cursor >= view.from && cursor <= view.to && (
        <i class="time-cursor" style={{ left: `${at(cursor)}px` }} />
      )}
      {marked !== null && (
        <i class="time-marked" style={{ left: `${at(marked.from)}px`, width: `${at(marked.to) - at(marked.from)}px` }} />
      )}
    </div>
  );
}
