// A line of the height of a text, without axes. It says its ends in words.
import type { JSX } from "preact";
import { exact, short } from "../format.ts";

const WIDTH = 96;
const HEIGHT = 20;

export function path(values: (number | null)[], width: number, height: number): string {
  const most = Math.max(1, ...values.map((one) => one ?? 0));
  const step = width / Math.max(1, values.length - 1);
  let text = "";
  let drawing = false;
  values.forEach((value, at) => {
    if (value === null) {
      drawing = false;
      return;
    }
    const x = (at * step).toFixed(1);
    const y = (height - 1.5 - (value / most) * (height - 3)).toFixed(1);
    // A value between two gaps is a point: a line of no length with round ends.
    const alone = !drawing && (at + 1 >= values.length || values[at + 1] === null);
    text += `${drawing ? "L" : "M"}${x} ${y}${alone ? "h0.01" : ""}`;
    drawing = true;
  });
  return text;
}

// `fromLeast`: the line stands on its least value instead of 0.
export function Sparkline(props: {
  values: (number | null)[] | null;
  what: string;
  none: string;
  fromLeast?: boolean;
}): JSX.Element {
  if (props.values === null) return <span class="soft spark-none">{props.none}</span>;
  const known = props.values.filter((one) => one !== null);
  if (known.length === 0) return <span class="soft spark-none">not known</span>;
  const first = known[0] as number;
  const last = known[known.length - 1] as number;
  const most = Math.max(...known);
  const least = props.fromLeast ? Math.min(...known) : 0;
  const drawn = props.values.map((one) => (one === null ? null : one - least));
  const label = `${props.what}: from ${exact(first)} to ${exact(last)}, at most ${exact(most)}`;
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <title>{`${props.what}: ${short(first)} → ${short(last)}, most ${short(most)}`}</title>
      <path d={path(drawn, WIDTH, HEIGHT)} />
    </svg>
  );
}
