// What stands under the cursor of a chart, beside it and in words.
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { utc } from "./utc.ts";

export interface TipRow {
  name: string;
  value: string;
  tone?: "strong" | "hot";
}

export interface TipPlace {
  ms: number;
  clientX: number;
  clientY: number;
}

const APART = 16;
const EDGE = 4;

// It is in the document all the time: a screen reader only speaks about changes.
export function Tip(props: { at: TipPlace | null; rows: TipRow[] }): JSX.Element {
  const node = useRef<HTMLDivElement>(null);
  const { at, rows } = props;
  const shown = at !== null && rows.length > 0;
  useLayoutEffect(() => {
    if (node.current !== null && at !== null && shown) move(node.current, at);
  }, [at, shown]);
  return (
    <div ref={node} class="tip" role="status" hidden={!shown}>
      {shown && (
        <>
          <p>{utc(at.ms)} UTC</p>
          <table>
            <tbody>
              {rows.map((one, index) => (
                <tr key={index} class={one.tone}>
                  <th scope="row">{one.name}</th>
                  <td>{one.value}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </div>
  );
}

function move(node: HTMLElement, at: TipPlace): void {
  const { width, height } = node.getBoundingClientRect();
  const right = at.clientX + APART;
  const left = right + width > innerWidth ? at.clientX - width - APART : right;
  node.style.left = `${Math.max(EDGE, left)}px`;
  node.style.top = `${Math.max(EDGE, Math.min(innerHeight - height - EDGE, at.clientY + APART))}px`;
}
