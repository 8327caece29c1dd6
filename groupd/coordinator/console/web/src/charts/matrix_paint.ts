// Draws the matrix on a canvas. Kinds differ in form as well as in colour: full, striped, hollow, crossed.
import { colour } from "../theme.ts";
import { AWAITED, KINDS, type Layout, type Matrix, type Move, OWNED, REVOKING, UNOWNED } from "./matrix_data.ts";

export const FADE_MS = 1500;
export const TRACE_MS = 6000;

export interface Picture {
  matrix: Matrix;
  layout: Layout;
  bins: Int32Array;
  moves: Move[];
  // Milliseconds since the moves; null: none to show.
  age: number | null;
  marked: { x: number; y: number } | null;
}

interface Ink {
  owned: string;
  revoking: string;
  awaited: string;
  unowned: string;
  soft: string;
  line: string;
  ink: string;
  empty: string;
}

function inkOf(): Ink {
  return {
    owned: colour("--accent"),
    revoking: colour("--behind"),
    awaited: colour("--rewound"),
    unowned: colour("--stalled"),
    soft: colour("--soft"),
    line: colour("--line"),
    ink: colour("--ink"),
    empty: colour("--sunken"),
  };
}

export function paint(canvas: HTMLCanvasElement, picture: Picture): void {
  const { layout } = picture;
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(layout.width * scale), Math.round(layout.height * scale)];
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, layout.width, layout.height);
  const ink = inkOf();
  context.fillStyle = ink.empty;
  context.fillRect(layout.left, layout.top, layout.binsX * layout.cellWidth, layout.binsY * layout.cellHeight);
  drawNames(context, picture, ink);
  drawCells(context, picture, ink);
  drawMoves(context, picture, ink);
  if (picture.marked !== null) {
    const { x, y } = cornerOf(layout, picture.marked.x, picture.marked.y);
    context.strokeStyle = ink.ink;
    context.lineWidth = 2;
    context.strokeRect(x - 1, y - 1, layout.cellWidth + 1, layout.cellHeight + 1);
  }
}

function cornerOf(layout: Layout, x: number, y: number): { x: number; y: number } {
  return { x: layout.left + x * layout.cellWidth, y: layout.top + y * layout.cellHeight };
}

function drawNames(context: CanvasRenderingContext2D, picture: Picture, ink: Ink): void {
  const { layout, matrix } = picture;
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = ink.soft;
  context.textBaseline = "middle";
  context.textAlign = "right";
  if (layout.perY === 1 && layout.cellHeight >= 11)
    matrix.rows.forEach((row, at) => {
      const y = layout.top + (at + 0.5) * layout.cellHeight;
      context.fillText(shortened(context, row.label, layout.left - 10), layout.left - 6, y);
    });
  else context.fillText(`${matrix.rows.length.toLocaleString("en-US")} members ↓`, layout.left - 6, layout.top + 8);
  context.textAlign = "left";
  let free = 0;
  for (const [start, end, topic] of topics(matrix)) {
    const x = layout.left + (start / layout.perX) * layout.cellWidth;
    const right = layout.left + (end / layout.perX) * layout.cellWidth;
    context.strokeStyle = ink.soft;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x + 0.5, layout.top - 6);
    context.lineTo(x + 0.5, layout.top);
    context.stroke();
    const room = Math.max(right - x, layout.width - x > 90 && x >= free ? 60 : 0) - 6;
    if (room < 24 || x < free) continue;
    const text = shortened(context, topic, room);
    context.fillText(text, x + 3, layout.top - 11);
    free = x + 3 + context.measureText(text).width + 6;
  }
}

function* topics(matrix: Matrix): Generator<[number, number, string]> {
  let start = 0;
  for (let at = 1; at <= matrix.columns.length; at++) {
    const topic = matrix.columns[start]?.topic as string;
    if (at < matrix.columns.length && matrix.columns[at]?.topic === topic) continue;
    yield [start, at, topic];
    start = at;
  }
}

function shortened(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let length = Math.max(1, Math.floor((text.length * room) / context.measureText(text).width) - 1);
  while (length > 1 && context.measureText(`…${text.slice(-length)}`).width > room) length--;
  return `…${text.slice(-length)}`;
}

function drawCells(context: CanvasRenderingContext2D, picture: Picture, ink: Ink): void {
  const { layout, bins, matrix } = picture;
  const fresh = fading(picture);
  for (let y = 0; y < layout.binsY; y++)
    for (let x = 0; x < layout.binsX; x++) {
      const at = (y * layout.binsX + x) * KINDS;
      const columns = Math.min(layout.perX, matrix.columns.length - x * layout.perX);
      const share = (kind: number) => Math.min(1, (bins[at + kind] as number) / columns);
      const corner = cornerOf(layout, x, y);
      const appear = fresh.get(y * layout.binsX + x) ?? 1;
      if (share(OWNED) > 0) full(context, layout, corner, ink.owned, appear * (0.25 + 0.75 * share(OWNED)));
      if (share(REVOKING) > 0) striped(context, layout, corner, ink.revoking, 0.4 + 0.6 * share(REVOKING));
      if (share(AWAITED) > 0) hollow(context, layout, corner, ink.awaited);
      if (share(UNOWNED) > 0) crossed(context, layout, corner, ink.unowned, 0.4 + 0.6 * share(UNOWNED));
    }
  context.globalAlpha = 1;
}

interface Corner {
  x: number;
  y: number;
}

function inner(layout: Layout): { width: number; height: number } {
  const gap = layout.cellWidth > 4 && layout.cellHeight > 4 ? 1 : 0;
  return { width: layout.cellWidth - gap, height: layout.cellHeight - gap };
}

function full(context: CanvasRenderingContext2D, layout: Layout, at: Corner, fill: string, alpha: number): void {
  const { width, height } = inner(layout);
  context.globalAlpha = alpha;
  context.fillStyle = fill;
  context.fillRect(at.x, at.y, width, height);
}

function striped(context: CanvasRenderingContext2D, layout: Layout, at: Corner, fill: string, alpha: number): void {
  const { width, height } = inner(layout);
  context.globalAlpha = alpha * 0.35;
  context.fillStyle = fill;
  context.fillRect(at.x, at.y, width, height);
  context.globalAlpha = alpha;
  context.strokeStyle = fill;
  context.lineWidth = 1.5;
  context.save();
  context.beginPath();
  context.rect(at.x, at.y, width, height);
  context.clip();
  context.beginPath();
  for (let offset = -height; offset < width; offset += 5) {
    context.moveTo(at.x + offset, at.y + height);
    context.lineTo(at.x + offset + height, at.y);
  }
  context.stroke();
  context.restore();
}

function hollow(context: CanvasRenderingContext2D, layout: Layout, at: Corner, stroke: string): void {
  const { width, height } = inner(layout);
  context.globalAlpha = 1;
  context.strokeStyle = stroke;
  context.lineWidth = 1.5;
  context.strokeRect(at.x + 1, at.y + 1, width - 2, height - 2);
}

function crossed(context: CanvasRenderingContext2D, layout: Layout, at: Corner, stroke: string, alpha: number): void {
  const { width, height } = inner(layout);
  context.globalAlpha = alpha;
  context.strokeStyle = stroke;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(at.x + 1, at.y + 1);
  context.lineTo(at.x + width - 1, at.y + height - 1);
  context.moveTo(at.x + width - 1, at.y + 1);
  context.lineTo(at.x + 1, at.y + height - 1);
  context.stroke();
}

function binOf(layout: Layout, row: number, column: number): { x: number; y: number } {
  return { x: Math.floor(column / layout.perX), y: Math.floor(row / layout.perY) };
}

// Cells that a move has just reached, with how far they have appeared.
function fading(picture: Picture): Map<number, number> {
  const found = new Map<number, number>();
  if (picture.age === null || picture.age >= FADE_MS) return found;
  for (const move of picture.moves) {
    const { x, y } = binOf(picture.layout, move.to, move.column);
    found.set(y * picture.layout.binsX + x, picture.age / FADE_MS);
  }
  return found;
}

// What the old owners had fades away; a trace from old to new stays a little longer.
function drawMoves(context: CanvasRenderingContext2D, picture: Picture, ink: Ink): void {
  const { layout, age } = picture;
  if (age === null || age >= TRACE_MS) return;
  for (const move of picture.moves) {
    const to = binOf(layout, move.to, move.column);
    const target = cornerOf(layout, to.x, to.y);
    const trace = 1 - age / TRACE_MS;
    context.globalAlpha = trace;
    context.strokeStyle = ink.ink;
    context.lineWidth = 1.5;
    context.strokeRect(target.x + 0.5, target.y + 0.5, layout.cellWidth - 2, layout.cellHeight - 2);
    if (move.from < 0) continue;
    const from = binOf(layout, move.from, move.column);
    const source = cornerOf(layout, from.x, from.y);
    if (age < FADE_MS) full(context, layout, source, ink.owned, 1 - age / FADE_MS);
    context.globalAlpha = trace * 0.7;
    context.strokeStyle = ink.ink;
    context.beginPath();
    context.moveTo(source.x + layout.cellWidth / 2, source.y + layout.cellHeight / 2);
    context.lineTo(target.x + layout.cellWidth / 2, target.y + layout.cellHeight / 2);
    context.stroke();
  }
  context.globalAlpha = 1;
}
