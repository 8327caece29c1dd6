// Times of a log, which its readers look at in different places: always in UTC.
const ZONE = { timeZone: "UTC" } as const;
const CLOCK = new Intl.DateTimeFormat("en-GB", { ...ZONE, hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { ...ZONE, day: "numeric", month: "short" });
const DAY_MS = 86_400_000;

export function utc(ms: number): string {
  return `${DAY.format(ms)}, ${CLOCK.format(ms)}`;
}

// What stands below an axis: seconds only where ticks are that close.
export function utcTick(ms: number, step: number): string {
  if (ms % DAY_MS === 0) return DAY.format(ms);
  return step < 60_000 ? CLOCK.format(ms) : CLOCK.format(ms).slice(0, 5);
}
