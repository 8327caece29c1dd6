// Lines over time. Charts with the same `sync` share one cursor. What stands under it is said in a line of text, and a
// table has the same values for those who do not see the picture.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { exact, moment, short } from "../format.ts";
import { AsTable, type TableData } from "./as_table.tsx";
import { colourOf, type Line, Plot } from "./plot.tsx";

interface LinesProps {
  label: string;
  unit: string;
  timesMs: number[];
  lines: Line[];
  sync: string;
  height: number;
  fill?: boolean;
}

const NAMED_MAX = 6;
const TABLE_ROWS_MAX = 60;

export function Lines(props: LinesProps): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  return (
    <figure class="lines">
      <div class="plot" style={{ height: `${props.height}px` }} role="img" aria-label={summary(props)}>
        <Plot {...props} onCursor={setAt} />
      </div>
      <Reading {...props} at={at} />
      <AsTable
        label={`${props.label} as a table`}
        summary={`${props.label} as a table`}
        numbersFrom={1}
        table={() => tableOf(props)}
      />
    </figure>
  );
}

function summary(props: LinesProps): string {
  const ends = props.lines.slice(0, NAMED_MAX).map((one) => `${one.name} ${exact(one.values.at(-1))}`);
  return `${props.label}; now: ${ends.join(", ")}`;
}

function tableOf(props: LinesProps): TableData {
  const step = Math.max(1, Math.ceil(props.timesMs.length / TABLE_ROWS_MAX));
  const rows = props.timesMs.map((_time, at) => at).filter((at) => at % step === 0);
  return {
    head: ["Time", ...props.lines.map((one) => one.name)],
    rows: rows.map((at) => [moment(props.timesMs[at] as number), ...props.lines.map((one) => exact(one.values[at]))]),
  };
}

// The values under the cursor, or the newest.
function Reading(props: LinesProps & { at: number | null }): JSX.Element {
  const at = props.at ?? props.timesMs.length - 1;
  const time = props.timesMs[at];
  const found = props.lines
    .map((one, index) => ({ name: one.name, key: colourOf(one, index), value: one.values[at] ?? null }))
    .filter((one) => one.value !== null)
    .sort((a, b) => (b.value as number) - (a.value as number));
  return (
    <figcaption class="reading">
      <span class="soft">{time === undefined ? "no data" : moment(time)}</span>
      {found.slice(0, NAMED_MAX).map((one) => (
        <span key={one.name} class="entry">
          <i class={`key ${one.key}`} aria-hidden="true" />
          {one.name} <b title={exact(one.value)}>{short(one.value)}</b>
        </span>
      ))}
      {found.length > NAMED_MAX && <span class="soft">and {found.length - NAMED_MAX} more</span>}
      {found.length === 0 && <span class="soft">not known</span>}
    </figcaption>
  );
}
