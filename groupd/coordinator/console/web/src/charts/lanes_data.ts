// The lives of the members of a group, and what stands at a place of their picture in words.
import { duration, UNKNOWN } from "../format.ts";
import type { TableData } from "./as_table.tsx";
import type { TimeRange } from "./timeline.ts";
import type { TipRow } from "./tip.tsx";
import { utc } from "./utc.ts";

// A time in which a member had one epoch and one state. null: until the end.
type MemberSpan = [since: number, until: number | null, state: string, epoch: number, partitions: number];

// A member under one id. Lives of the same process that follow each other share a lane.
export interface Life {
  id: string;
  lane: number;
  host: string;
  joined: number;
  ended: number | null;
  endedBy: string | null;
  spans: MemberSpan[];
}

export interface Rebalance {
  epoch: number;
  since: number;
  ms: number | null;
  trigger: string;
}

export interface LanesData {
  lanes: string[];
  lives: Life[];
  // From when to when each rebalance went.
  marks: [number, number][];
  rebalances: Rebalance[];
}

const STATES: Record<string, string> = {
  stable: "stable",
  revoking: "revoking partitions",
  waiting: "waiting for partitions",
  away: "away for a while",
};
const ENDS: Record<string, string> = {
  left: "left",
  expired: "session expired",
  "rebalance-timeout": "fenced: too slow to revoke partitions",
  replaced: "replaced by its next incarnation",
  converted: "the group changed its protocol",
  removed: "removed: left or fenced",
};
const NAMED_MAX = 4;
// Red is for what is wrong.
const LANE_COLOURS = [0, 1, 2, 3, 5, 6, 7] as const;

export function laneColour(lane: number): string {
  return `s${LANE_COLOURS[lane % LANE_COLOURS.length]}`;
}

export function fenced(life: Life): boolean {
  return life.endedBy === "expired" || life.endedBy === "rebalance-timeout";
}

function ending(life: Life): string {
  return ENDS[life.endedBy ?? ""] ?? life.endedBy ?? "not known";
}

// `near`: how many milliseconds beside the cursor still count. `lane` null: the line of the rebalances.
export function lanesTip(data: LanesData, whole: TimeRange, ms: number, lane: number | null, near: number): TipRow[] {
  if (lane === null) return rebalancesTip(data, ms, near);
  const lives = data.lives.filter(
    (one) => one.lane === lane && one.joined - near <= ms && ms <= (one.ended ?? whole.to) + near,
  );
  const life = lives.at(-1);
  const name = data.lanes[lane] ?? "";
  if (life === undefined) return [{ name, value: "not in the group", tone: "strong" }];
  const rows: TipRow[] = [
    { name, value: life.host, tone: "strong" },
    { name: "member id", value: life.id },
  ];
  const span = life.spans.find(([since, until]) => since <= ms && ms < (until ?? whole.to + 1));
  if (span !== undefined) {
    const [, , state, epoch, partitions] = span;
    rows.push({ name: "state", value: STATES[state] ?? state }, { name: "epoch", value: String(epoch) });
    rows.push({ name: "partitions", value: String(partitions) });
  }
  rows.push({ name: "joined", value: utc(life.joined) });
  if (life.ended !== null) {
    const value = `${utc(life.ended)}: ${ending(life)}`;
    rows.push(fenced(life) ? { name: "✕ ended", value, tone: "hot" } : { name: "ended", value });
  }
  return rows;
}

function rebalancesTip(data: LanesData, ms: number, near: number): TipRow[] {
  const found = data.rebalances.filter((one) => one.since - near <= ms && ms <= one.since + (one.ms ?? 0) + near);
  const count = found.length === 0 ? "none" : String(found.length);
  return [
    { name: "Rebalances here", value: count, tone: "strong" },
    ...found.slice(0, NAMED_MAX).map((one) => ({ name: `epoch ${one.epoch}`, value: `${one.trigger}, ${duration(one.ms)}` })),
  ];
}

export function lanesTable(data: LanesData): TableData {
  return {
    head: ["Member", "Member id", "Host", "Joined", "Ended", "How"],
    rows: data.lives.map((life) => [
      data.lanes[life.lane] ?? "",
      life.id,
      life.host,
      utc(life.joined),
      life.ended === null ? UNKNOWN : utc(life.ended),
      life.ended === null ? "alive" : ending(life),
    ]),
  };
}
