// Who has which partition, as a matrix: members are rows, partitions are columns. Pure: no document, no clock.

export interface MatrixRow {
  id: string;
  label: string;
}

export interface MatrixColumn {
  topic: string;
  partition: number;
}

export const OWNED = 0;
// Still read by the member, which has been told to give it up.
export const REVOKING = 1;
// In the target of the member, which does not have it yet.
export const AWAITED = 2;
// Nobody has it and nobody will get it; stands in the row of nobody.
export const UNOWNED = 3;
export const KINDS = 4;

export interface Matrix {
  rows: MatrixRow[];
  columns: MatrixColumn[];
  // Three arrays of one length: each cell that is not empty.
  row: Int32Array;
  column: Int32Array;
  kind: Uint8Array;
}

export type Holdings = Record<string, number[]>;

export interface Holder {
  id: string;
  label: string;
  owned: Holdings;
  revoking: Holdings;
  target: Holdings;
}

const BY_NAME_MAX = 200;
export const NOBODY = "";
const NAMES = new Intl.Collator("en", { numeric: true });

// `known`: partitions that are shown although nobody has them.
export function matrixOf(holders: Holder[], known: MatrixColumn[]): Matrix {
  const columns = columnsOf(holders, known);
  const at = indexOf(columns);
  const taken = new Uint8Array(columns.length);
  const cells: { holder: Holder; column: number; kind: number }[] = [];
  const first = new Map<Holder, number>();
  for (const holder of holders) {
    const mine = new Set<number>();
    const put = (places: Holdings, kind: number) => {
      for (const [topic, numbers] of Object.entries(places)) {
        const base = at.get(topic);
        for (const number of numbers) {
          const column = base?.get(number);
          if (column === undefined || mine.has(column)) continue;
          mine.add(column);
          taken[column] = 1;
          cells.push({ holder, column, kind });
          first.set(holder, Math.min(first.get(holder) ?? column, column));
        }
      }
    };
    put(holder.revoking, REVOKING);
    put(holder.owned, OWNED);
    put(holder.target, AWAITED);
  }
  const ordered = orderOf(holders, first);
  const rows: MatrixRow[] = ordered.map(({ id, label }) => ({ id, label }));
  const rowOf = new Map(ordered.map((holder, index) => [holder, index]));
  const free = [...taken.keys()].filter((column) => taken[column] === 0);
  if (free.length > 0) rows.push({ id: NOBODY, label: "nobody" });
  return {
    rows,
    columns,
    row: Int32Array.from([...cells.map((one) => rowOf.get(one.holder) as number), ...free.map(() => ordered.length)]),
    column: Int32Array.from([...cells.map((one) => one.column), ...free]),
    kind: Uint8Array.from([...cells.map((one) => one.kind), ...free.map(() => UNOWNED)]),
  };
}

// Few members stand in the order of their names, so that none jumps when partitions move. Of many, those that have
// neighbouring partitions stand together: their names cannot be read anyway.
function orderOf(holders: Holder[], first: Map<Holder, number>): Holder[] {
  const byName = (a: Holder, b: Holder) => NAMES.compare(a.label, b.label) || (a.id < b.id ? -1 : 1);
  if (holders.length <= BY_NAME_MAX) return [...holders].sort(byName);
  const place = (holder: Holder) => first.get(holder) ?? Number.MAX_SAFE_INTEGER;
  return [...holders].sort((a, b) => place(a) - place(b) || (a.id < b.id ? -1 : 1));
}

function columnsOf(holders: Holder[], known: MatrixColumn[]): MatrixColumn[] {
  const found = new Map<string, Set<number>>();
  const add = (topic: string, number: number) => {
    const numbers = found.get(topic);
    if (numbers === undefined) found.set(topic, new Set([number]));
    else numbers.add(number);
  };
  for (const { topic, partition } of known) add(topic, partition);
  for (const holder of holders)
    for (const places of [holder.owned, holder.revoking, holder.target])
      for (const [topic, numbers] of Object.entries(places)) for (const number of numbers) add(topic, number);
  return [...found.keys()]
    .sort((a, b) => NAMES.compare(a, b))
    .flatMap((topic) =>
      [...(found.get(topic) as Set<number>)].sort((a, b) => a - b).map((partition) => ({ topic, partition })),
    );
}

function indexOf(columns: MatrixColumn[]): Map<string, Map<number, number>> {
  const index = new Map<string, Map<number, number>>();
  columns.forEach(({ topic, partition }, at) => {
    const numbers = index.get(topic);
    if (numbers === undefined) index.set(topic, new Map([[partition, at]]));
    else numbers.set(partition, at);
  });
  return index;
}

export interface Move {
  column: number;
  // A row of the new matrix; -1: a member that is not there any more, or nobody.
  from: number;
  to: number;
}

const MOVES_MAX = 400;

// The partitions whose reader has changed between two pictures; at most some hundred, which is as many as can be seen.
export function movesBetween(before: Matrix, after: Matrix): Move[] {
  const name = ({ topic, partition }: MatrixColumn) => `${topic}\n${partition}`;
  const reader = new Map<string, string>();
  for (let at = 0; at < before.row.length; at++)
    if ((before.kind[at] as number) <= REVOKING)
      reader.set(name(before.columns[before.column[at] as number] as MatrixColumn), (before.rows[before.row[at] as number] as MatrixRow).id);
  const rowOf = new Map(after.rows.map((row, index) => [row.id, index]));
  const moves: Move[] = [];
  for (let at = 0; at < after.row.length && moves.length < MOVES_MAX; at++) {
    if ((after.kind[at] as number) > REVOKING) continue;
    const column = after.column[at] as number;
    const to = after.row[at] as number;
    const was = reader.get(name(after.columns[column] as MatrixColumn));
    if (was !== undefined && was !== (after.rows[to] as MatrixRow).id) moves.push({ column, from: rowOf.get(was) ?? -1, to });
  }
  return moves;
}

// How the matrix fits its room. A cell of the picture stands for `perX` partitions of `perY` members.
export interface Layout {
  left: number;
  top: number;
  cellWidth: number;
  cellHeight: number;
  perX: number;
  perY: number;
  binsX: number;
  binsY: number;
  width: number;
  height: number;
}

const HEIGHT_MAX = 460;
const CELL = { least: 7, most: 36, bin: 5 };
const ROW_MOST = 22;
const TOP = 22;

export function layoutOf(rows: number, columns: number, width: number): Layout {
  const left = width < 620 ? 84 : 160;
  const x = fit(columns, width - left - 2);
  const y = fit(rows, HEIGHT_MAX);
  const cellHeight = Math.min(ROW_MOST, y.size);
  return {
    left,
    top: TOP,
    cellWidth: x.size,
    cellHeight,
    perX: x.per,
    perY: y.per,
    binsX: x.bins,
    binsY: y.bins,
    width,
    height: TOP + y.bins * cellHeight + 2,
  };
}

function fit(count: number, room: number): { size: number; per: number; bins: number } {
  if (count === 0) return { size: CELL.most, per: 1, bins: 0 };
  const size = Math.floor(room / count);
  if (size >= CELL.least) return { size: Math.min(CELL.most, size), per: 1, bins: count };
  const per = Math.ceil(count / Math.max(1, Math.floor(room / CELL.bin)));
  const bins = Math.ceil(count / per);
  return { size: Math.max(1, Math.floor(room / bins)), per, bins };
}

// Per cell of the picture and kind: how many partitions.
export function binned(matrix: Matrix, layout: Layout): Int32Array {
  const bins = new Int32Array(layout.binsX * layout.binsY * KINDS);
  for (let at = 0; at < matrix.row.length; at++) {
    const x = Math.floor((matrix.column[at] as number) / layout.perX);
    const y = Math.floor((matrix.row[at] as number) / layout.perY);
    const bin = (y * layout.binsX + x) * KINDS + (matrix.kind[at] as number);
    bins[bin] = (bins[bin] as number) + 1;
  }
  return bins;
}
