// Values as people read them: short on the page, exact in titles.

const EXACT = new Intl.NumberFormat("en-US");
const UNITS: [number, string][] = [
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

// What the admin port has not found out yet.
export const NOT_KNOWN = "not known yet";

export const UNKNOWN = "–";

export function exact(value: number | null | undefined): string {
  return value === null || value === undefined ? "not known" : EXACT.format(value);
}

// 12,345 as 12.3k. Three digits at most, so that columns stay narrow.
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  const sign = value < 0 ? "−" : "";
  const size = Math.abs(value);
  if (size < 1000) return sign + (Number.isInteger(size) ? String(size) : trimmed(size));
  for (const [index, [unit, name]] of UNITS.entries()) {
    if (size < unit && index < UNITS.length - 1) continue;
    const rounded = trimmed(size / unit);
    // 999,950 is 1M, not 1000k.
    if (rounded === "1000" && index > 0) return `${sign}1${UNITS[index - 1]?.[1] ?? ""}`;
    return `${sign}${rounded}${name}`;
  }
  return sign + trimmed(size);
}

function trimmed(size: number): string {
  return size >= 99.95 ? size.toFixed(0) : size.toFixed(1).replace(/\.0$/, "");
}

// 94 s as "1 min 34 s"; two units at most.
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return UNKNOWN;
  if (ms < 0) return "0 s";
  if (ms < 999.5) return `${ms < 10 ? trimmed(ms) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${trimmed(seconds)} s`;
  return inUnits(Math.round(seconds));
}

const TIME_UNITS: [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

// Whole seconds; what a countdown shows.
export function inUnits(seconds: number): string {
  const at = TIME_UNITS.findIndex(([unit]) => seconds >= unit);
  if (at < 0) return "0 s";
  const [unit, name] = TIME_UNITS[at] as [number, string];
  const rest = TIME_UNITS[at + 1];
  const first = `${Math.floor(seconds / unit)} ${name}`;
  const left = rest === undefined ? 0 : Math.floor((seconds % unit) / rest[0]);
  return left === 0 || rest === undefined ? first : `${first} ${left} ${rest[1]}`;
}

export function ago(ms: number): string {
  return ms < 1000 ? "just now" : `${inUnits(Math.floor(ms / 1000))} ago`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

// The time of day, with the date if that is another day than `now`.
export function moment(ms: number, now: number = Date.now()): string {
  const day = DAY.format(ms);
  return day === DAY.format(now) ? CLOCK.format(ms) : `${day}, ${CLOCK.format(ms)}`;
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

// A local time without a zone, as a field of the type datetime-local has it.
export function localTime(ms: number): string {
  return iso(ms - new Date(ms).getTimezoneOffset() * 60_000).replace("Z", "");
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${short(count)} ${count === 1 ? one : many}`;
}

export function place(topic: string, partition: number): string {
  return `${topic}-${partition}`;
}

// 0,1,2,5 as "0–2, 5", cut after some runs.
export function runs(numbers: number[], most = 12): string {
  const found: string[] = [];
  for (let at = 0; at < numbers.length; ) {
    let end = at;
    while (end + 1 < numbers.length && numbers[end + 1] === (numbers[end] as number) + 1) end++;
    if (found.length === most) return `${found.join(", ")} and ${numbers.length - at} more`;
    found.push(end === at ? String(numbers[at]) : `${numbers[at]}–${numbers[end]}`);
    at = end + 1;
  }
  return found.join(", ");
}

export function placesText(places: Record<string, number[]> | undefined): string {
  const parts = Object.entries(places ?? {}).filter(([, numbers]) => numbers.length > 0);
  return parts.length === 0 ? "none" : parts.map(([topic, numbers]) => `${topic}: ${runs(numbers)}`).join("; ");
}

export function count(places: Record<string, number[]> | undefined): number {
  return Object.values(places ?? {}).reduce((sum, numbers) => sum + numbers.length, 0);
}

// A group may have an empty id, of which nothing would be seen.
export function idText(groupId: string): string {
  return groupId === "" ? "(empty id)" : groupId;
}

// A long name with its middle left out, where it would say least.
export function middle(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - end)}…${text.slice(text.length - end)}`;
}

// "member 3k9… (client billing-1) joined" as "billing-1 joined": what is left out is in a title, or in the steps.
export function brief(cause: string): string {
  return cause.replace(/\bmember (?:(?!\bmember ).)+? \(client (.+?)\) (joined|left|was fenced)\b/g, "$1 $2");
}
