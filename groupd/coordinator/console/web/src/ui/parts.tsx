// Boxes of which pages are made.
import type { ComponentChildren, JSX } from "preact";
import type { Elsewhere, Live } from "../data/live.ts";

export function Card(props: {
  id: string;
  title: string;
  aside?: ComponentChildren;
  wide?: boolean;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <section class={`card ${props.wide ? "wide" : ""}`} aria-labelledby={`${props.id}-title`} id={props.id}>
      <header class="card-head">
        <h2 id={`${props.id}-title`}>{props.title}</h2>
        <div class="aside">{props.aside}</div>
      </header>
      {props.children}
    </section>
  );
}

export function Tile(props: { label: string; children: ComponentChildren; note?: ComponentChildren }): JSX.Element {
  return (
    <div class="tile">
      <div class="tile-label">{props.label}</div>
      <div class="tile-value">{props.children}</div>
      {props.note !== undefined && <div class="tile-note">{props.note}</div>}
    </div>
  );
}

export function Bar(props: { share: number; label: string; tone?: string }): JSX.Element {
  const share = Math.max(0, Math.min(1, props.share));
  return (
    <div class="bar" role="img" aria-label={props.label}>
      <div class={`fill ${props.tone ?? ""}`} style={{ width: `${share * 100}%` }} />
    </div>
  );
}

interface ChipChoice {
  value: string;
  label: ComponentChildren;
  count: number;
}

// Switches of which any number may be on; none means all.
export function Chips(props: {
  label: string;
  choices: ChipChoice[];
  chosen: ReadonlySet<string>;
  onChange(chosen: ReadonlySet<string>): void;
}): JSX.Element | null {
  if (props.choices.length === 0) return null;
  const flip = (value: string) => {
    const chosen = new Set(props.chosen);
    if (!chosen.delete(value)) chosen.add(value);
    props.onChange(chosen);
  };
  return (
    <div class="chips" role="group" aria-label={props.label}>
      {props.choices.map((one) => (
        <button
          type="button"
          class="chip"
          key={one.value}
          aria-pressed={props.chosen.has(one.value)}
          onClick={() => flip(one.value)}
        >
          {one.label} <span class="count">{one.count.toLocaleString("en-US")}</span>
        </button>
      ))}
    </div>
  );
}

// What a page shows until its data is there, or when it does not come.
export function Waiting(props: { live: Live<unknown>; what: string }): JSX.Element {
  const { live, what } = props;
  if (live.elsewhere !== null) return <AtAnotherNode elsewhere={live.elsewhere} />;
  if (live.status.trouble !== null) return <Notice tone="warning">{live.status.trouble}</Notice>;
  return <p class="loading">Reading {what} …</p>;
}

// Why the data of a page is old, if it is.
export function OutOfDate(props: { live: Live<unknown> }): JSX.Element | null {
  const { data, elsewhere, gone, status } = props.live;
  // A server that does not answer at all may be back in a second: the header says so, and that is enough.
  const refused = status.phase === "reconnecting" && status.code !== null && !gone;
  if (data === null || (status.phase !== "outdated" && !refused)) return null;
  if (elsewhere !== null) return <AtAnotherNode elsewhere={elsewhere}>What is below is the last that was seen here.</AtAnotherNode>;
  return <Notice tone="warning">What is below is not kept up to date now: {status.trouble}</Notice>;
}

function AtAnotherNode(props: { elsewhere: Elsewhere; children?: ComponentChildren }): JSX.Element {
  const { told, admin_url } = props.elsewhere;
  return (
    <Notice tone="info">
      {told}.{" "}
      <ConsoleLink admin={admin_url} hash={location.hash} plain={false}>
        Open its console
      </ConsoleLink>{" "}
      {props.children}
    </Notice>
  );
}

// The console of another node; where other machines do not reach it, the text alone or nothing.
export function ConsoleLink(props: {
  admin: string | null | undefined;
  hash: string;
  plain: boolean;
  children: ComponentChildren;
}): JSX.Element | null {
  const { admin, hash, plain, children } = props;
  if (admin && /^https?:\/\//.test(admin)) return <a href={`${admin.replace(/\/$/, "")}/${hash}`}>{children}</a>;
  return plain ? <span>{children}</span> : null;
}

// `quiet`: a screen reader is not interrupted for it.
export function Notice(props: {
  tone: "info" | "warning" | "error" | "good";
  quiet?: boolean;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <div class={`notice ${props.tone}`} role={props.tone === "error" && !props.quiet ? "alert" : undefined}>
      {props.children}
    </div>
  );
}
