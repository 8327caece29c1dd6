// A table of any length in a box of its own: only rows in view are in the document, but each says which row of how many
// it is. Arrows go from row to row, Enter follows the link of a row.
import type { ComponentChildren, JSX } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Direction, type Key, sorted } from "./sort.ts";
import { scrolledTo, visible } from "./window.ts";

export interface Column<R> {
  key: string;
  title: string;
  // In pixels; the column with `grow` takes what is left.
  width: number;
  grow?: boolean;
  numeric?: boolean;
  hint?: string;
  cell(row: R): ComponentChildren;
  // Without it nobody can sort by this column.
  sort?(row: R): Key;
  // The direction that a first click asks for.
  first?: Direction;
}

interface TableProps<R> {
  label: string;
  columns: Column<R>[];
  rows: readonly R[];
  rowKey(row: R): string;
  rowClass?(row: R): string;
  empty: ComponentChildren;
  initial?: { key: string; direction: Direction };
  // "page": as high as the window allows; "box": some rows.
  size?: "page" | "box";
}

const ROW_PX = 32;
const TOUCH_ROW_PX = 42;
// What the column that grows has on a telephone, where it must leave room for another.
const NARROW_PX = 150;

function rowHeight(): number {
  return window.matchMedia("(pointer: coarse)").matches ? TOUCH_ROW_PX : ROW_PX;
}

export function Table<R>(props: TableProps<R>): JSX.Element {
  const { columns, rows, rowKey } = props;
  const [order, setOrder] = useState(props.initial ?? null);
  const box = useRef<HTMLDivElement>(null);
  const height = useMemo(rowHeight, []);
  const narrow = useMemo(() => window.matchMedia("(max-width: 600px)").matches, []);
  const [view, setView] = useState({ top: 0, height: 900 });
  const focusOn = useRef<number | null>(null);
  const kept = useKeptFocus(box);

  const shown = useMemo(() => {
    const column = columns.find((one) => one.key === order?.key);
    return column?.sort === undefined || order === null ? rows : sorted(rows, column.sort, order.direction);
  }, [rows, order, columns]);

  const look = useCallback(() => {
    const node = box.current;
    if (node === null) return;
    node.toggleAttribute("data-more", node.scrollLeft + node.clientWidth < node.scrollWidth - 1);
    setView((before) =>
      before.top === node.scrollTop && before.height === node.clientHeight
        ? before
        : { top: node.scrollTop, height: node.clientHeight },
    );
  }, []);
  useEffect(() => {
    const node = box.current;
    if (node === null) return;
    const watcher = new ResizeObserver(look);
    watcher.observe(node);
    return () => watcher.disconnect();
  }, [look]);

  const goTo = useCallback(
    (row: number) => {
      const node = box.current;
      if (node === null || shown.length === 0) return;
      const wanted = Math.max(0, Math.min(shown.length - 1, row));
      const head = node.querySelector("thead")?.clientHeight ?? 0;
      focusOn.current = wanted;
      node.scrollTop = scrolledTo(wanted, height, node.scrollTop, node.clientHeight - head);
      setView({ top: node.scrollTop, height: node.clientHeight });
      focusRow(node, focusOn);
    },
    [shown, height],
  );
  useLayoutEffect(() => {
    if (box.current !== null) focusRow(box.current, focusOn);
  });

  const keys = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(view.height / height) - 2);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const at = rowOf(event.target);
    const step = steps[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Home" || event.key === "End") goTo(event.key === "Home" ? 0 : shown.length - 1);
    else if (step === undefined) return;
    else goTo(at === null ? Math.floor(view.top / height) + Math.max(0, step - 1) : at + step);
    event.preventDefault();
  };

  const span = visible(shown.length, height, view.top, view.height);
  const width = columns.reduce((sum, one) => sum + (one.grow && narrow ? Math.min(one.width, NARROW_PX) : one.width), 0);
  return (
    <div
      class={`table-box ${props.size === "page" ? "page-size" : "box-size"}`}
      ref={box}
      onScroll={look}
      onKeyDown={keys}
      onFocusIn={kept.gained}
      onFocusOut={kept.lost}
      tabIndex={0}
      role="group"
      aria-label={props.label}
      data-table
    >
      <table aria-rowcount={shown.length + 1} style={{ minWidth: `${width}px` }} aria-label={props.label}>
        <colgroup>
          {columns.map((one) => (
            <col key={one.key} style={one.grow ? {} : { width: `${one.width}px` }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((one) => (
              <Head key={one.key} column={one} order={order} onOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap rows={span.first} height={height} columns={columns.length} />
          {shown.slice(span.first, span.end).map((row, index) => (
            <tr
              key={rowKey(row)}
              aria-rowindex={span.first + index + 2}
              data-row={span.first + index}
              data-key={rowKey(row)}
              class={props.rowClass?.(row) ?? ""}
              style={{ height: `${height}px` }}
            >
              {columns.map((one, at) =>
                at === 0 ? (
                  <th key={one.key} scope="row">
                    {one.cell(row)}
                  </th>
                ) : (
                  <td key={one.key} class={one.numeric ? "number" : ""}>
                    {one.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
          <Gap rows={shown.length - span.end} height={height} columns={columns.length} />
        </tbody>
      </table>
      {shown.length === 0 && <p class="empty">{props.empty}</p>}
    </div>
  );
}

// The room of the rows that are not in the document.
function Gap(props: { rows: number; height: number; columns: number }): JSX.Element | null {
  if (props.rows === 0) return null;
  return (
    <tr aria-hidden="true" class="gap">
      <td colSpan={props.columns} style={{ height: `${props.rows * props.height}px` }} />
    </tr>
  );
}

type Order = { key: string; direction: Direction } | null;

function Head<R>(props: { column: Column<R>; order: Order; onOrder(order: Order): void }): JSX.Element {
  const { column, order, onOrder } = props;
  const direction = order?.key === column.key ? order.direction : null;
  if (column.sort === undefined)
    return (
      <th scope="col" class={column.numeric ? "number" : ""} title={column.hint}>
        {column.title}
      </th>
    );
  const first = column.first ?? (column.numeric ? "descending" : "ascending");
  const next = direction === null ? first : direction === "ascending" ? "descending" : "ascending";
  const arrow = direction === null ? "" : direction === "ascending" ? "▲" : "▼";
  return (
    <th scope="col" class={column.numeric ? "number" : ""} aria-sort={direction ?? "none"}>
      <button type="button" class="sort" title={column.hint} onClick={() => onOrder({ key: column.key, direction: next })}>
        {column.title}
        <span aria-hidden="true" class="arrow">
          {arrow}
        </span>
      </button>
    </th>
  );
}

// Rows that change places lose the focus, since they are taken out of the document for a moment: they get it back.
function useKeptFocus(box: { current: HTMLElement | null }): { gained(event: FocusEvent): void; lost(): void } {
  const key = useRef<string | null>(null);
  const drawing = useRef(false);
  drawing.current = true;
  useLayoutEffect(() => {
    drawing.current = false;
    if (key.current === null || box.current === null || document.activeElement !== document.body) return;
    for (const row of box.current.querySelectorAll<HTMLElement>("tr[data-key]"))
      if (row.dataset["key"] === key.current) row.querySelector<HTMLElement>("a, button")?.focus({ preventScroll: true });
  });
  return {
    gained: (event) => {
      const row = event.target instanceof Element ? event.target.closest<HTMLElement>("tr[data-key]") : null;
      key.current = row?.dataset["key"] ?? null;
    },
    lost: () => {
      if (!drawing.current) key.current = null;
    },
  };
}

function rowOf(target: EventTarget | null): number | null {
  const row = target instanceof Element ? target.closest<HTMLElement>("tr[data-row]") : null;
  return row === null ? null : Number(row.dataset["row"]);
}

// Gives the wanted row the focus once it is in the document: its link, or else the row itself.
function focusRow(node: HTMLElement, wanted: { current: number | null }): void {
  if (wanted.current === null) return;
  const row = node.querySelector<HTMLElement>(`tr[data-row="${wanted.current}"]`);
  if (row === null) return;
  wanted.current = null;
  const link = row.querySelector<HTMLElement>("a, button");
  if (link === null) row.tabIndex = -1;
  (link ?? row).focus({ preventScroll: true });
}
