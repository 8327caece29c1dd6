// The page of `groupd-pipeline report`. Its text and tables come from groupd/pipeline/report; this draws the charts when they come
// into sight, and does what the page offers beside them.
import { TOO_WIDE, watchWidth } from "../charts/as_table.tsx";
import type { Timeline } from "../charts/timeline.ts";
import { chooseTheme, startTheme, theme, THEMES } from "../theme.ts";
import { read, type ReportTimes } from "./data.ts";
import { startGroup } from "./group.tsx";

const MINUTE_MS = 60_000;
const times = read<ReportTimes>("report-data");
const groups = new Map<string, Timeline>();

function groupOf(section: HTMLElement): Timeline {
  const known = groups.get(section.id);
  if (known !== undefined) return known;
  const made = startGroup(section, times);
  groups.set(section.id, made);
  return made;
}

function drawWhenSeen(): void {
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        groupOf(target as HTMLElement);
      }
    },
    { rootMargin: "600px" },
  );
  for (const section of document.querySelectorAll("section.group")) watcher.observe(section);
}

// The link of a finding also zooms to its time, with some time around it.
function followEvidence(): void {
  for (const link of document.querySelectorAll<HTMLElement>("a[data-group]"))
    link.addEventListener("click", () => {
      const section = document.getElementById(link.dataset["group"] ?? "");
      const { since, until } = link.dataset;
      if (section === null) return;
      const time = groupOf(section);
      if (since === undefined) return;
      const [from, to] = [Number(since), Number(until ?? times.end)];
      const around = Math.max((to - from) * 0.25, 5 * MINUTE_MS);
      time.zoom(from - around, to + around);
    });
}

function filterGroups(): void {
  const filter = document.getElementById("filter");
  if (!(filter instanceof HTMLInputElement)) return;
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const node of document.querySelectorAll<HTMLElement>("[data-name]"))
      node.hidden = !(node.dataset["name"] ?? "").toLowerCase().includes(wanted);
  });
}

function switchTheme(): void {
  const button = document.getElementById("theme");
  if (button === null) return;
  const show = () => (button.textContent = `Theme: ${theme.value}`);
  theme.watch(show);
  show();
  button.addEventListener("click", () => chooseTheme(THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto"));
}

function tellWidths(): void {
  for (const box of document.querySelectorAll<HTMLElement>(".scroll")) {
    const hint = document.createElement("p");
    hint.className = "soft hint";
    hint.textContent = TOO_WIDE;
    hint.hidden = true;
    box.before(hint);
    watchWidth(box, (wide) => (hint.hidden = !wide));
  }
}

startTheme();
switchTheme();
filterGroups();
followEvidence();
tellWidths();
drawWhenSeen();
