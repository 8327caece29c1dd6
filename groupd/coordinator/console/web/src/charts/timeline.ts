// What charts of the same time share: the part of it that is in view, and the place of the cursor.
import { Store } from "../data/store.ts";

export interface TimeRange {
  from: number;
  to: number;
}

// Nobody can zoom in further than this.
const LEAST_MS = 10_000;
// Half of the text below a tick at the end.
export const RIGHT = 24;
const NARROW = 620;

export class Timeline {
  readonly whole: TimeRange;
  readonly view: Store<TimeRange>;
  readonly cursor = new Store<number | null>(null);
  // The part that somebody marks with the pointer, before it becomes the view.
  readonly marked = new Store<TimeRange | null>(null);

  constructor(whole: TimeRange) {
    this.whole = whole;
    this.view = new Store(whole);
  }

  get zoomed(): boolean {
    return this.view.value.from > this.whole.from || this.view.value.to < this.whole.to;
  }

  zoom(from: number, to: number): void {
    const missing = Math.max(0, LEAST_MS - (to - from)) / 2;
    const view = { from: Math.max(this.whole.from, from - missing), to: Math.min(this.whole.to, to + missing) };
    if (view.to > view.from) this.view.set(view);
  }

  reset(): void {
    this.view.set(this.whole);
  }
}

// Where times are drawn. All charts below each other have the same, so that one line marks the same moment in each.
export interface TimeScale extends TimeRange {
  width: number;
  // The space for names and values.
  left: number;
  inner: number;
}

export function scaleOf(width: number, range: TimeRange): TimeScale {
  const left = width < NARROW ? 76 : 148;
  return { ...range, width, left, inner: Math.max(40, width - left - RIGHT) };
}

// Pixels right of `left`.
export function xOf(scale: TimeScale, ms: number): number {
  return ((ms - scale.from) / (scale.to - scale.from)) * scale.inner;
}

export function timeAt(scale: TimeScale, x: number): number {
  const share = Math.max(0, Math.min(1, (x - scale.left) / scale.inner));
  return scale.from + share * (scale.to - scale.from);
}
