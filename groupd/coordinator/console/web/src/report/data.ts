// What groupd/pipeline/report/group_section.py writes into the page.
import type { LanesData } from "../charts/lanes_data.ts";
import type { OwnershipData } from "../charts/ownership_data.ts";
import type { Band } from "../charts/time_axis.tsx";

export interface ReportTimes {
  start: number;
  end: number;
  // The number of values in every series.
  steps: number;
}

export interface Series {
  total: (number | null)[];
  lines: [topic: string, partition: number, values: (number | null)[]][];
  others: number;
}

interface Finding {
  severity: Band["tone"];
  topic: string | null;
  partition: number | null;
  since: number | null;
  until: number | null;
  // The table of the jobs that has the evidence.
  table: string;
}

export interface GroupData extends LanesData, OwnershipData {
  lag: Series;
  rate: Series;
  findings: Finding[];
}

export function read<T>(id: string): T {
  return JSON.parse(document.getElementById(id)?.textContent ?? "null") as T;
}

export function bandsOf(findings: Finding[], aboutMembers: boolean): Band[] {
  return findings.flatMap(({ since, until, severity, table }) =>
    since !== null && (table === "rebalances" || table === "members") === aboutMembers
      ? [{ since, until, tone: severity }]
      : [],
  );
}
