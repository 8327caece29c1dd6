// What the sections of a group's page share: the newest snapshot, by which clock it counts, and names of members.
import type { Matrix } from "../../charts/matrix_data.ts";
import { matrixOf } from "../../charts/matrix_data.ts";
import { skewFrom } from "../../data/clock.ts";
import type { Group, GroupSnapshot, Member } from "../../data/types.ts";

export interface GroupView {
  snapshot: GroupSnapshot;
  // Server's clock less this machine's.
  skew: number;
  // When it came, by this machine's clock: times that are left count from then.
  receivedAt: number;
}

export function foldGroup(before: GroupView | null, name: string, data: unknown): GroupView | null {
  if (name !== "snapshot") return null;
  const snapshot = data as GroupSnapshot;
  return { snapshot, skew: skewFrom(snapshot.lag.now_ms, before?.skew), receivedAt: Date.now() };
}

export function until(view: GroupView, inMs: number | null): number | null {
  return inMs === null ? null : view.receivedAt + inMs;
}

// Short names that are still unique: the instance or client id, with the beginning of the member id where several
// members share it.
export function labelsOf(members: readonly Member[]): Map<string, string> {
  const name = (member: Member) => member.instance_id || member.client_id || member.member_id;
  const counts = new Map<string, number>();
  for (const member of members) counts.set(name(member), (counts.get(name(member)) ?? 0) + 1);
  return new Map(
    members.map((member) => {
      const own = name(member);
      // Classic member ids begin with the client id.
      const id = member.member_id.startsWith(`${own}-`) ? member.member_id.slice(own.length + 1) : member.member_id;
      return [member.member_id, (counts.get(own) ?? 0) > 1 ? `${own} · ${id.slice(0, 8)}` : own];
    }),
  );
}

export function labelOf(labels: ReadonlyMap<string, string>, memberId: string | null | undefined): string {
  return memberId ? (labels.get(memberId) ?? memberId) : "nobody";
}

export function pictureOf(snapshot: GroupSnapshot, labels: ReadonlyMap<string, string>): Matrix {
  const holders = snapshot.group.members.map((member) => ({
    id: member.member_id,
    label: labelOf(labels, member.member_id),
    owned: member.owned,
    revoking: member.pending_revocation ?? {},
    target: member.target ?? {},
  }));
  return matrixOf(holders, snapshot.offsets.partitions);
}

export interface Progress {
  // Members that have reached the target.
  arrived: number;
  revoking: number;
  waiting: number;
  // Any other state, and members that are still at an older epoch.
  others: number;
}

export function progressOf(group: Group): Progress {
  const progress: Progress = { arrived: 0, revoking: 0, waiting: 0, others: 0 };
  const awaited = new Set(group.waiting_for ?? []);
  for (const member of group.members) {
    if (member.state === "UNREVOKED_PARTITIONS") progress.revoking++;
    else if (member.state === "UNRELEASED_PARTITIONS") progress.waiting++;
    else if (isArrived(group, member, awaited)) progress.arrived++;
    else progress.others++;
  }
  return progress;
}

function isArrived(group: Group, member: Member, awaited: ReadonlySet<string>): boolean {
  if (group.group_epoch === undefined) return !awaited.has(member.member_id);
  return member.member_epoch === undefined || member.member_epoch >= group.group_epoch;
}
