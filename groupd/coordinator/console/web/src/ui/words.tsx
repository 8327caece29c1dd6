// Small pieces with which every page says what it knows: numbers, times, names, judgements.
import type { JSX } from "preact";
import type { Judgement } from "../data/types.ts";
import { ago, duration, exact, inUnits, iso, middle, moment, NOT_KNOWN, short } from "../format.ts";
import { useNow } from "./now.ts";

// From bad to good, as docs/lag.md has them. The worst is red.
export const JUDGEMENTS: readonly Judgement[] = ["stalled", "stopped", "rewound", "behind", "ok"];

const MEANING: Record<Judgement, string> = {
  ok: "There is no lag, or it becomes less.",
  behind: "Commits move on, but the lag has not become less.",
  rewound: "A committed offset has gone back.",
  stalled: "Records wait, and the member that has them commits nothing, or always the same offset.",
  stopped: "Records wait, and no member has the partition.",
};

const SHAPES: Record<Judgement | "unknown", string> = {
  ok: "M3 8.5l3.2 3.2L13 4.8",
  behind: "M8 2.5l6 11H2z M8 6.5v3.5 M8 11.6v.4",
  stalled: "M5 2.5h6l3 3v5l-3 3H5l-3-3v-5z M5.5 8h5",
  stopped: "M3 3h10v10H3z",
  rewound: "M8 3.5L3 8l5 4.5z M13.5 3.5L8.5 8l5 4.5z",
  unknown: "M4 8h8",
};

export function Icon(props: { judgement: Judgement | null }): JSX.Element {
  const name = props.judgement ?? "unknown";
  return (
    <svg class={`icon ${name}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" focusable="false">
      <path d={SHAPES[name]} />
    </svg>
  );
}

export function Badge(props: { judgement: Judgement | null | undefined; title?: string | undefined }): JSX.Element {
  const judgement = props.judgement ?? null;
  const title = props.title ?? (judgement === null ? "It has not been looked at often enough." : MEANING[judgement]);
  return (
    <span class={`badge ${judgement ?? "unknown"}`} title={title}>
      <Icon judgement={judgement} />
      {judgement ?? NOT_KNOWN}
    </span>
  );
}

export function Num(props: { value: number | null | undefined; unit?: string }): JSX.Element {
  const unit = props.unit === undefined ? "" : ` ${props.unit}`;
  const text = short(props.value);
  const long = exact(props.value);
  if (text === long) return <span>{text}</span>;
  return (
    <span title={`${long}${unit}`}>
      <span aria-hidden="true">{text}</span>
      <span class="hidden">{long}</span>
    </span>
  );
}

// How long records have waited; `lag`: how many do.
export function Seconds(props: { value: number | null | undefined; lag?: number | null }): JSX.Element {
  const { value } = props;
  if (props.lag && value === null) return <span class="soft">{NOT_KNOWN}</span>;
  if (value === null || value === undefined) return <Num value={null} />;
  return <span class="whole" title={`${exact(Math.round(value * 10) / 10)} s`}>{value < 1 ? "< 1 s" : duration(value * 1000)}</span>;
}

// A time of the server's clock; `skew`: what has to be added to this machine's clock to get that.
export function Ago(props: { ms: number | null | undefined; skew: number }): JSX.Element {
  const now = useNow();
  if (props.ms === null || props.ms === undefined) return <span>never</span>;
  return (
    <time dateTime={iso(props.ms)} title={moment(props.ms, 0)}>
      {ago(now + props.skew - props.ms)}
    </time>
  );
}

export function At(props: { ms: number }): JSX.Element {
  return (
    <time dateTime={iso(props.ms)} title={iso(props.ms)}>
      {moment(props.ms)}
    </time>
  );
}

// Counts down to `until`, by this machine's clock.
export function Countdown(props: { until: number | null }): JSX.Element {
  const now = useNow();
  if (props.until === null) return <span class="soft">no time limit</span>;
  const left = Math.ceil((props.until - now) / 1000);
  return <span class={left < 10 ? "soon" : ""}>{left <= 0 ? "due now" : `${inUnits(left)} left`}</span>;
}

export function Name(props: { text: string; most?: number; class?: string }): JSX.Element {
  const cut = middle(props.text, props.most ?? 40);
  return (
    <span class={`name ${props.class ?? ""}`} title={cut === props.text ? undefined : props.text}>
      {cut}
    </span>
  );
}
