// The picture of who has which partition, with what stands under the pointer or the cursor keys in words.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useStore } from "../data/store.ts";
import { calm, colours } from "../theme.ts";
import {
  AWAITED,
  binned,
  KINDS,
  type Layout,
  layoutOf,
  type Matrix,
  type Move,
  movesBetween,
  OWNED,
  REVOKING,
  UNOWNED,
} from "./matrix_data.ts";
import { FADE_MS, paint, TRACE_MS } from "./matrix_paint.ts";

interface Cell {
  x: number;
  y: number;
}

export function OwnershipMatrix(props: { matrix: Matrix; label: string }): JSX.Element {
  const { matrix } = props;
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [marked, setMarked] = useState<Cell | null>(null);
  const [spoken, setSpoken] = useState("");
  const palette = useStore(colours);
  const layout = useMemo(() => layoutOf(matrix, width), [matrix, width]);
  const bins = useMemo(() => binned(matrix, layout), [matrix, layout]);
  const moves = useMoves(matrix);

  useEffect(() => {
    const node = host.current;
    if (node === null) return;
    const watcher = new ResizeObserver(() => setWidth(node.clientWidth));
    watcher.observe(node);
    setWidth(node.clientWidth);
    return () => watcher.disconnect();
  }, []);

  useEffect(() => {
    const node = canvas.current;
    if (node === null || width === 0) return;
    return animate(moves.at, (age) => paint(node, { matrix, layout, bins, moves: moves.moves, age, marked }));
  }, [matrix, layout, bins, moves, marked, palette, width]);

  const text = marked === null ? null : describe(matrix, layout, bins, marked);
  const step = (event: KeyboardEvent) => {
    const next = stepped(event.key, marked, layout);
    if (next === undefined) return;
    event.preventDefault();
    setMarked(next);
    setSpoken(next === null ? "" : describe(matrix, layout, bins, next));
  };
  return (
    <figure class="matrix">
      <div ref={host} class="matrix-host">
        <canvas
          ref={canvas}
          style={{ width: `${layout.width}px`, height: `${layout.height}px` }}
          role="img"
          aria-label={`${props.label}. Arrow keys read it cell by cell.`}
          tabIndex={0}
          onKeyDown={step}
          onBlur={() => setMarked(null)}
          onPointerMove={(event) => setMarked(cellAt(event, layout))}
          onPointerLeave={() => setMarked(null)}
        />
      </div>
      <p class="reading matrix-reading" aria-hidden="true">
        {text ?? summaryOf(layout)}
      </p>
      <p class="hidden" role="status">
        {spoken}
      </p>
      <Legend matrix={matrix} />
    </figure>
  );
}

function useMoves(matrix: Matrix): { moves: Move[]; at: number | null } {
  const before = useRef<Matrix | null>(null);
  const kept = useRef<{ moves: Move[]; at: number | null }>({ moves: [], at: null });
  return useMemo(() => {
    const moves = before.current === null ? [] : movesBetween(before.current, matrix);
    before.current = matrix;
    // The rows and columns of older moves may have changed: they are not shown on.
    kept.current = moves.length > 0 ? { moves, at: performance.now() } : { moves: [], at: null };
    return kept.current;
  }, [matrix]);
}

// Draws once and, after moves, until their traces have faded. Who wants no motion sees the traces, standing still.
function animate(since: number | null, draw: (age: number | null) => void): () => void {
  const age = () => (since === null ? null : performance.now() - since);
  const now = age();
  if (now === null || now >= TRACE_MS) {
    draw(null);
    return () => undefined;
  }
  if (calm()) {
    draw(FADE_MS);
    const timer = window.setTimeout(() => draw(null), TRACE_MS - now);
    return () => window.clearTimeout(timer);
  }
  let frame = 0;
  const next = () => {
    const at = age() ?? TRACE_MS;
    draw(at >= TRACE_MS ? null : at);
    if (at < TRACE_MS) frame = requestAnimationFrame(next);
  };
  next();
  return () => cancelAnimationFrame(frame);
}

function cellAt(event: PointerEvent, layout: Layout): Cell | null {
  const x = Math.floor((event.offsetX - layout.left) / layout.cellWidth);
  const y = Math.floor((event.offsetY - layout.top) / layout.cellHeight);
  return x >= 0 && y >= 0 && x < layout.binsX && y < layout.binsY ? { x, y } : null;
}

// undefined: not a key of the picture.
function stepped(key: string, from: Cell | null, layout: Layout): Cell | null | undefined {
  const ways: Record<string, [number, number]> = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1],
  };
  if (key === "Escape") return null;
  const way = ways[key];
  if (way === undefined || layout.binsX === 0 || layout.binsY === 0) return undefined;
  if (from === null) return { x: 0, y: 0 };
  return {
    x: Math.max(0, Math.min(layout.binsX - 1, from.x + way[0])),
    y: Math.max(0, Math.min(layout.binsY - 1, from.y + way[1])),
  };
}

const WORDS: [number, string, string][] = [
  [OWNED, "owned", "owned"],
  [REVOKING, "being revoked", "being revoked"],
  [AWAITED, "in the target, not owned yet", "awaited"],
  [UNOWNED, "read by nobody", "read by nobody"],
];

function describe(matrix: Matrix, layout: Layout, bins: Int32Array, cell: Cell): string {
  const first = matrix.columns[cell.x * layout.perX];
  const last = matrix.columns[Math.min(matrix.columns.length, (cell.x + 1) * layout.perX) - 1];
  const row = matrix.rows[cell.y * layout.perY];
  if (first === undefined || last === undefined || row === undefined) return "";
  const at = (cell.y * layout.binsX + cell.x) * KINDS;
  const counts = WORDS.filter(([kind]) => (bins[at + kind] as number) > 0);
  if (layout.perX === 1 && layout.perY === 1) {
    const state = counts[0]?.[1] ?? "not this member's";
    return `${first.topic}-${first.partition}, ${row.label}: ${state}`;
  }
  const to = first.topic === last.topic ? String(last.partition) : `${last.topic}-${last.partition}`;
  const columns = first === last ? `${first.topic}-${first.partition}` : `${first.topic}-${first.partition} to ${to}`;
  const end = Math.min(matrix.rows.length, (cell.y + 1) * layout.perY);
  const members = layout.perY === 1 ? row.label : `members ${cell.y * layout.perY + 1} to ${end}`;
  const numbers = counts.map(([kind, , word]) => `${bins[at + kind]} ${word}`);
  return `${columns}, ${members}: ${numbers.length === 0 ? "nothing" : numbers.join(", ")}`;
}

function summaryOf(layout: Layout): string {
  if (layout.perX === 1 && layout.perY === 1) return "Point at a cell to read it.";
  return `A cell stands for ${layout.perX} partitions of ${layout.perY} members; the darker, the more of them are owned there.`;
}

function Legend(props: { matrix: Matrix }): JSX.Element {
  const counts = new Array<number>(KINDS).fill(0);
  for (const kind of props.matrix.kind) counts[kind] = (counts[kind] as number) + 1;
  return (
    <ul class="legend">
      {WORDS.filter(([kind]) => kind === OWNED || (counts[kind] as number) > 0).map(([kind, words]) => (
        <li key={kind}>
          <i class={`swatch kind-${kind}`} aria-hidden="true" />
          {(counts[kind] as number).toLocaleString("en-US")} {words}
        </li>
      ))}
    </ul>
  );
}
