// The values of a chart for those who do not see the picture. Rows are made when somebody opens the table.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface TableData {
  head: string[];
  // The first cell of a row names it.
  rows: string[][];
  // Rows that are left out because there are too many.
  more?: number;
}

interface AsTableProps {
  label: string;
  summary: string;
  // Columns from here on are numbers.
  numbersFrom: number;
  table(): TableData;
}

export function AsTable(props: AsTableProps): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details class="as-table" onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>{props.summary}</summary>
      {open && <Box {...props} />}
    </details>
  );
}

function Box(props: AsTableProps): JSX.Element {
  const { head, rows, more } = props.table();
  const box = useRef<HTMLDivElement>(null);
  const [wide, setWide] = useState(false);
  useEffect(() => (box.current === null ? undefined : watchWidth(box.current, setWide)), []);
  const kind = (column: number) => (column >= props.numbersFrom ? "number" : undefined);
  return (
    <>
      <p class="soft hint" hidden={!wide}>
        {TOO_WIDE}
      </p>
      <div ref={box} class="table-box box-size" tabIndex={0} role="group" aria-label={props.label}>
        <table class="auto">
          <thead>
            <tr>
              {head.map((text, column) => (
                <th scope="col" class={kind(column)} key={column}>
                  {text}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, ...cells], row) => (
              <tr key={row}>
                <th scope="row" class={kind(0)}>
                  {name}
                </th>
                {cells.map((text, column) => (
                  <td class={kind(column + 1)} key={column}>
                    {text}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more !== undefined && more > 0 && <p class="soft">{more.toLocaleString("en-US")} more rows are left out.</p>}
    </>
  );
}

// Some systems show no scrollbar.
export const TOO_WIDE = "This table is wider than the page: scroll sideways to see all columns →";

// Tells whether the content of a box is wider than the box, now and after every change of its size.
export function watchWidth(box: HTMLElement, tell: (wide: boolean) => void): () => void {
  const watcher = new ResizeObserver(() => tell(box.scrollWidth > box.clientWidth));
  watcher.observe(box);
  return () => watcher.disconnect();
}
