// Which rows of a long list are in the document: those in view and some around them.

export interface Span {
  first: number;
  // Behind the last one.
  end: number;
}

export function visible(rows: number, rowHeight: number, top: number, height: number, around = 8): Span {
  const first = Math.max(0, Math.min(rows, Math.floor(top / rowHeight)) - around);
  const end = Math.min(rows, Math.ceil((top + height) / rowHeight) + around);
  return { first, end: Math.max(first, end) };
}

// The position that brings a row into view, or `top` if it is there already.
export function scrolledTo(row: number, rowHeight: number, top: number, height: number): number {
  const start = row * rowHeight;
  if (start < top) return start;
  return start + rowHeight > top + height ? start + rowHeight - height : top;
}
