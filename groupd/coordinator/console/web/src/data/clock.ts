// The server's clock less this machine's. It only changes when it has changed noticeably: times on the page would jump
// by what the network takes.
const JITTER_MS = 1500;

export function skewFrom(nowMs: number, before: number | undefined): number {
  const skew = nowMs - Date.now();
  return before !== undefined && Math.abs(skew - before) < JITTER_MS ? before : skew;
}
