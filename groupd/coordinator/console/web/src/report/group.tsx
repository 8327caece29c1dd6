// The four charts of a group, with one cursor and one zoom.
import { type JSX, render } from "preact";
import { Lanes } from "../charts/lanes.tsx";
import { Ownership } from "../charts/ownership.tsx";
import { TimeLines } from "../charts/time_lines.tsx";
import { Timeline } from "../charts/timeline.ts";
import { utc } from "../charts/utc.ts";
import { duration, place } from "../format.ts";
import { bandsOf, type GroupData, read, type ReportTimes, type Series } from "./data.ts";

const NO_NAMES: ReadonlySet<string> = new Set();

// Draws them into the places that the page has for them.
export function startGroup(section: HTMLElement, times: ReportTimes): Timeline {
  const data = read<GroupData>(section.dataset["data"] ?? "");
  const time = new Timeline({ from: times.start, to: times.end });
  const charts = chartsOf(data, time);
  for (const figure of section.querySelectorAll<HTMLElement>("figure[data-chart]")) {
    const into = figure.querySelector<HTMLElement>(".place");
    const made = charts[figure.dataset["chart"] ?? ""];
    if (into !== null && made !== undefined)
      render(made(into.dataset["label"] ?? "", `${into.dataset["title"] ?? ""} of ${section.dataset["name"] ?? ""}`), into);
  }
  showRange(section, time);
  return time;
}

type Chart = (label: string, name: string) => JSX.Element;

function chartsOf(data: GroupData, time: Timeline): Record<string, Chart> {
  const hot = new Set(
    data.findings.flatMap(({ topic, partition }) => (topic === null || partition === null ? [] : [place(topic, partition)])),
  );
  const ofOffsets = bandsOf(data.findings, false);
  const ofMembers = bandsOf(data.findings, true);
  const [lag, rate] = [partsOf(data.lag), partsOf(data.rate)];
  return {
    lag: (label, name) => (
      <TimeLines
        {...{ label, name, time, hot, ...lag }}
        sum="Lag, all partitions"
        unit="records"
        height={216}
        thin
        tone="--accent"
        wash="--accent-wash"
        bands={ofOffsets}
      />
    ),
    rate: (label, name) => (
      <TimeLines
        {...{ label, name, time, ...rate }}
        hot={NO_NAMES}
        sum="Consumed, all partitions"
        unit="records/s"
        height={132}
        thin={false}
        tone="--ok"
        wash="--ok-wash"
        bands={[]}
      />
    ),
    lanes: (label, name) => <Lanes {...{ label, name, time, data }} bands={ofMembers} />,
    ownership: (label, name) => <Ownership {...{ label, name, time, data, hot }} />,
  };
}

function partsOf(series: Series) {
  const parts = series.lines.map(([topic, partition, values]) => ({ name: place(topic, partition), values }));
  return { total: series.total, parts, others: series.others };
}

function showRange(section: HTMLElement, time: Timeline): void {
  const range = section.querySelector<HTMLElement>(".range");
  const reset = section.querySelector<HTMLButtonElement>(".reset");
  if (range === null || reset === null) return;
  time.view.watch(() => {
    const { from, to } = time.view.value;
    reset.hidden = !time.zoomed;
    range.textContent = time.zoomed ? `${utc(from)} – ${utc(to)} UTC, ${duration(to - from)}` : "";
  });
  reset.addEventListener("click", () => time.reset());
}
