// Who has which partition, as a matrix: members are rows, partitions are columns. Pure: no document, no clock.

interface MatrixRow {
  id: string;
  label: string;
}

interface MatrixColumn {
  topic: string;
  partition: number;
}

export const OWNED = 0;
// Still read by the member, which has been told to revoke it.
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

type Holdings = Record<string, number[]>;

interface Holder {
  id: string;
  label: string;
  owned: Holdings;
  revoking: Holdings;
  target: Holdings;
}

const BY_NAME_MAX = 200;
const NOBODY = "";
const NAMES = new Intl.Collator("en", { numeric: true });

// `known`: partitions that are shown although nobody has them. Written for ten thousand members: one pass over what
// they have, into flat lists.
export function matrixOf(holders: Holder[], known: readonly MatrixColumn[]): Matrix {
  const columns = columnsOf(holders, known);
  const at = indexOf(columns);
  // The last holder that was seen to have a column, counted from 1; 0: nobody.
  const taken = new Int32Array(columns.length);
  const firstColumn = new Int32Array(holders.length).fill(columns.length);
  const cells = { holder: [] as number[], column: [] as number[], kind: [] as number[] };
  holders.forEach((holder, number) => {
    const put = (places: Holdings, kind: number) => {
      for (const topic in places) {
        const base = at.get(topic);
        for (const partition of places[topic] as number[]) {
          const column = base?.get(partition);
          if (column === undefined || taken[column] === number + 1) continue;
          taken[column] = number + 1;
          cells.holder.push(number);
          cells.column.push(column);
          cells.kind.push(kind);
          if (column < (firstColumn[number] as number)) firstColumn[number] = column;
        }
      }
    };
    put(holder.revoking, REVOKING);
    put(holder.owned, OWNED);
    put(holder.target, AWAITED);
  });
  const order = orderOf(holders, firstColumn);
  const rows = order.map((number) => ({ id: (holders[number] as Holder).id, label: (holders[number] as Holder).label }));
  const rowOf = new Int32Array(holders.length);
  order.forEach((number, row) => (rowOf[number] = row));
  taken.forEach((holder, column) => {
    if (holder > 0) return;
    cells.holder.push(-1);
    cells.column.push(column);
    cells.kind.push(UNOWNED);
  });
  if (cells.kind.at(-1) === UNOWNED) rows.push({ id: NOBODY, label: "nobody" });
  return {
    rows,
    columns,
    row: Int32Array.from(cells.holder, (number) => (number < 0 ? order.length : (rowOf[number] as number))),
    column: Int32Array.from(cells.column),
    kind: Uint8Array.from(cells.kind),
  };
}

// Few members stand in the order of their names, so that none jumps when partitions move. Of many, those that have
// neighbouring partitions stand together: their names cannot be read anyway.
function orderOf(holders: Holder[], firstColumn: Int32Array): number[] {
  const order = holders.map((_holder, number) => number);
  const byId = (a: Holder, b: Holder) => (a.id < b.id ? -1 : 1);
  const one = (number: number) => holders[number] as Holder;
  if (holders.length <= BY_NAME_MAX)
    return order.sort((a, b) => NAMES.compare(one(a).label, one(b).label) || byId(one(a), one(b)));
  return order.sort((a, b) => (firstColumn[a] as number) - (firstColumn[b] as number) || byId(one(a), one(b)));
}

function columnsOf(holders: Holder[], known: readonly MatrixColumn[]): MatrixColumn[] {
  const found = new Map<string, Set<number>>();
  const numbersOf = (topic: string) => {
    let numbers = found.get(topic);
    if (numbers === undefined) found.set(topic, (numbers = new Set()));
    return numbers;
  };
  for (const { topic, partition } of known) numbersOf(topic).add(partition);
  const take = (places: Holdings) => {
    for (const topic in places) {
      const numbers = numbersOf(topic);
      for (const number of places[topic] as number[]) numbers.add(number);
    }
  };
  for (const holder of holders) {
    take(holder.owned);
    take(holder.revoking);
    take(holder.target);
  }
  return [...found.keys()]
    .sort((a, b) => NAMES.compare(a, b))
    .flatMap((topic) =>
      Array.from(Int32Array.from(found.get(topic) as Set<number>).sort(), (partition) => ({ topic, partition })),
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
const CHARACTER = 6.6;
// As long as the words that stand for the names of many members.
const MANY_CHARACTERS = 16;
const TOP = 22;

export function layoutOf(matrix: Matrix, width: number): Layout {
  const y = fit(matrix.rows.length, HEIGHT_MAX);
  const longest = y.per > 1 ? MANY_CHARACTERS : matrix.rows.reduce((most, row) => Math.max(most, row.label.length), 0);
  const left = Math.min(width < 620 ? 92 : 180, Math.max(44, 12 + longest * CHARACTER));
  const x = fit(matrix.columns.length, width - left - 2);
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
