// What the admin port says, as the pages read it. Fields that only some types of groups have are optional.

export type Judgement = "ok" | "behind" | "rewound" | "stopped" | "stalled";
type Places = Record<string, number[]>;

interface LastRebalance {
  timestamp_ms: number;
  cause: string;
}

export interface GroupRow {
  group_id: string;
  type: string;
  state: string;
  members: number;
  lag: number | null;
  lag_seconds: number | null;
  judgement: Judgement | null;
  last_rebalance: LastRebalance | null;
  trend: (number | null)[] | null;
}

export interface GroupsLacks {
  // There are more groups than are listed.
  more: boolean;
  // Why some groups may be missing, or what is; null: nothing is.
  missing: string | null;
  // The other nodes of a cluster, which serve groups that are not listed here.
  other_nodes: OtherNode[];
}

export interface OtherNode {
  node: number;
  admin: string | null;
}

export interface NodeName {
  id: number;
}

export interface GroupsSnapshot extends GroupsLacks {
  version: number;
  now_ms: number;
  node: NodeName;
  rows: GroupRow[];
}

export interface GroupsChanges extends GroupsLacks {
  version: number;
  now_ms: number;
  rows: GroupRow[];
  gone: string[];
}

export interface Member {
  member_id: string;
  instance_id: string | null;
  client_id: string;
  client_host: string;
  rack_id?: string | null;
  protocol?: string;
  state?: string;
  member_epoch?: number;
  owned: Places;
  pending_revocation?: Places;
  target?: Places;
  join_parked?: boolean;
  sync_parked?: boolean;
}

export interface Blocked {
  member_id: string;
  topic?: string;
  partition?: number;
  held_by?: string | null;
  revoking?: boolean;
  why: string;
  in_ms: number | null;
}

export interface Deadline {
  kind: string;
  member_id: string;
  in_ms: number;
  // What the deadline is of, if not of a member: a topic and a partition, for example.
  of?: (string | number)[];
}

export interface Group {
  group_id: string;
  type: string;
  state: string;
  group_epoch?: number;
  assignment_epoch?: number;
  generation?: number;
  protocol_type?: string;
  protocol_name?: string | null;
  leader?: string | null;
  waiting_for?: string[];
  members: Member[];
  blocked: Blocked[];
  deadlines: Deadline[];
  config_overrides: Record<string, string>;
  left_out?: string[];
}

export interface PartitionOffsets {
  topic: string;
  partition: number;
  committed_offset: number | null;
  end_offset: number | null;
  lag: number | null;
  lag_seconds?: number | null;
  judgement?: Judgement | null;
  last_commit_ms: number | null;
  member_id: string | null;
  client_id?: string | null;
  client_host?: string | null;
  in_transaction?: boolean;
}

export interface MemberOffsets {
  member_id: string;
  lag: number | null;
  last_commit_ms: number | null;
}

// A member that commits nothing, although records wait.
interface SilentMember {
  member_id: string;
  text: string;
}

export interface Offsets {
  partitions: PartitionOffsets[];
  members: MemberOffsets[];
}

interface RebalanceStep {
  timestamp_ms: number;
  kind: string;
  member_id: string;
  client_id: string;
  text: string;
}

export interface Rebalance {
  started_ms: number;
  ended_ms: number | null;
  cause: string;
  epoch: number;
  moved_partitions: number | null;
  sentence: string;
  steps: RebalanceStep[];
}

interface LagLine {
  topic: string;
  partition: number;
  lag: (number | null)[];
}

export interface LagHistory {
  times_ms: number[];
  total: (number | null)[];
  partitions: LagLine[];
  // Partitions with lag that are not among them.
  left_out?: number;
}

interface GroupLag {
  now_ms: number;
  lag: number | null;
  lag_seconds: number | null;
  judgement: Judgement | null;
  reason: string | null;
  // The first of them, and how many there are.
  silent: SilentMember[];
  silent_count: number;
  // null: the group has committed nothing.
  history: LagHistory | null;
}

export interface OffsetMove {
  timestamp_ms: number;
  topic: string;
  partition: number;
  kind: string;
  from: number | null;
  to: number | null;
  by: string;
}

export interface OffsetMoves {
  // Whether the whole log was looked at.
  complete: boolean;
  moves: OffsetMove[];
}

export interface ConfigEntry {
  name: string;
  value: string | number | boolean | null;
  source: string;
}

// Neighbouring records of a share group in one state. `held_ms` and `lock_left_ms`: null without a lock.
export interface ShareRange {
  first_offset: number;
  last_offset: number;
  state: string;
  delivery_count: number;
  member_id: string | null;
  held_ms: number | null;
  lock_left_ms: number | null;
  write_pending: boolean;
  why: string | null;
}

// What only the leader knows is null on other nodes.
export interface SharePartition {
  topic: string;
  partition: number;
  start_offset: number | null;
  // Of the last hour, one a minute.
  starts: (number | null)[] | null;
  locked: number | null;
  waiting: number | null;
  finished: number | null;
  lock_timeouts: number | null;
  in_flight: ShareRange[];
  left_out: number;
}

export interface ShareEvent {
  timestamp_ms: number;
  topic: string;
  partition: number;
  first_offset: number;
  last_offset: number;
  what: string;
  why: string;
  delivery_count: number;
}

export interface SharePage {
  delivery_count_limit: number;
  partitions: SharePartition[];
  events: ShareEvent[];
}

export interface GroupSnapshot {
  version: number;
  group: Group;
  lag: GroupLag;
  offsets: Offsets;
  rebalances: Rebalance[];
  configs: ConfigEntry[];
  // Only of share groups.
  share?: SharePage;
}

export interface Limit {
  name: string;
  used: number;
  most: number;
}

export interface ClusterNode {
  node: number | string;
  state: string;
  address?: string | null;
  admin?: string | null;
  units?: Record<string, number>;
  rack?: string | null;
  version?: string | null;
  lease_left_ms?: number | null;
}

export interface Health {
  now_ms: number;
  // Why the daemon is not ready; null: it is.
  not_ready: string | null;
  uptime_s: number;
  version: string;
  store: string;
  shards: Record<string, number>;
  loop: { longest_ms_last_minute: number | null; delays: number; stalls: number };
  writer: { waiting: number; flush_ms: { p50: number | null; p99: number | null; max: number | null } };
  connections: { open: number; allowed: number | null };
  limits: Limit[];
  // Since the start of the daemon.
  refusals: { what: string; count: number }[];
  nodes: ClusterNode[];
}

export interface Assignors {
  assignors: string[];
  // null: the members of the group assign by themselves.
  used: string | null;
}

export interface Balance {
  least: number;
  most: number;
  deviation: number;
}

export interface WhatIf {
  assignor: string;
  // What `current` and `proposed` are, in words.
  compared: string;
  moves: { topic: string; partition: number; from: string | null; to: string | null }[];
  // How many there are; the list may be shorter.
  moved: number;
  current: Record<string, number>;
  proposed: Record<string, number>;
  target: Record<string, Places>;
  balance: { current: Balance; proposed: Balance };
}

export interface OffsetChange {
  topic: string;
  partition: number;
  from: number | null;
  to: number | null;
  action: string;
  // Skipped, or, negative, read again; null: not known.
  records: number | null;
  warning: string | null;
  // An offset is written or deleted.
  writes: boolean;
  // Consumers start where their auto.offset.reset says.
  starts_anew: boolean;
}

export interface OffsetChanges {
  rows: OffsetChange[];
  // Why it cannot be applied now; empty: it can.
  refusal: string;
}
