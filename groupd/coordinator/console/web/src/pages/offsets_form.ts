// What the form about offsets asks the server for. Pure, so that its checks can be tested.
import { groupPath } from "../data/api.ts";
import type { PartitionOffsets } from "../data/types.ts";
import { localTime, place } from "../format.ts";
import { byTopic } from "./offsets_rows.ts";

export type Target = "earliest" | "latest" | "time" | "offset" | "shift" | "restore";

export interface OffsetsForm {
  target: Target;
  number: string;
  // As a field of the type datetime-local has it: a local time without a zone.
  time: string;
  // What `time` was made of, in ms since 1970; null: it was typed. When clocks are put back, two hours have the same
  // local times.
  ms: number | null;
  deleteNew: boolean;
  // Partitions by name (`orders-7`); null: all that have an offset.
  chosen: ReadonlySet<string> | null;
}

export interface Request {
  path: string;
  body: Record<string, unknown>;
}

// The fields for a time that nobody has typed.
export function timeFields(ms: number): Pick<OffsetsForm, "time" | "ms"> {
  return { time: localTime(ms), ms };
}

// The request, or what is missing in a sentence. `partitions` null: they have not been read yet.
export function requestOf(groupId: string, form: OffsetsForm, partitions: PartitionOffsets[] | null): Request | string {
  const value = valueOf(form);
  if (typeof value === "object" && value !== null) return value.missing;
  if (form.target === "restore")
    return { path: groupPath(groupId, "/offsets/restore"), body: { at: value, delete_new: form.deleteNew } };
  const { chosen } = form;
  if (chosen !== null && chosen.size === 0) return "Choose at least one partition.";
  if (chosen !== null && partitions === null) return "The partitions are still being read.";
  const named =
    chosen === null || partitions === null
      ? null
      : byTopic(partitions.filter((one) => chosen.has(place(one.topic, one.partition))), (one) => one.partition);
  return { path: groupPath(groupId, "/offsets/reset"), body: { to: form.target, value, partitions: named } };
}

function valueOf(form: OffsetsForm): number | string | null | { missing: string } {
  switch (form.target) {
    case "earliest":
    case "latest":
      return null;
    case "offset":
    case "shift":
      return numberOf(form);
    case "time":
    case "restore": {
      const ms = form.ms ?? Date.parse(form.time);
      return Number.isNaN(ms) ? { missing: "Choose a time." } : new Date(ms).toISOString();
    }
  }
}

function numberOf(form: OffsetsForm): number | { missing: string } {
  const text = form.number.trim();
  if (!/^[+-]?\d{1,15}$/.test(text)) return { missing: "Enter a whole number." };
  const value = Number(text);
  if (form.target === "offset" && value < 0) return { missing: "An offset is not negative." };
  if (form.target === "shift" && value === 0) return { missing: "A shift by 0 changes nothing." };
  return value;
}
