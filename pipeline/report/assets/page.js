// The page: charts are drawn when they come into sight; one cursor and one zoom for each group.
const tip = document.getElementById("tip");

class Group {
  constructor(section) {
    this.section = section;
    this.view = [report.start, report.end];
    this.data = JSON.parse(document.getElementById(section.dataset.data).textContent);
    this.charts = [...section.querySelectorAll("figure[data-chart]")].map((figure) => new KINDS[figure.dataset.chart](this, figure));
    this.reset = section.querySelector(".reset");
    this.reset.addEventListener("click", () => this.zoom(report.start, report.end));
    for (const chart of this.charts) this.wire(chart);
    this.draw();
    new ResizeObserver(() => this.resized()).observe(this.charts[0].plot);
  }

  resized() {
    const width = this.charts[0].plot.clientWidth;
    if (width === this.width) return;
    this.draw();
  }

  draw() {
    this.width = this.charts[0].plot.clientWidth;
    for (const chart of this.charts) chart.draw();
    const [from, to] = this.view;
    const zoomed = from > report.start || to < report.end;
    this.reset.hidden = !zoomed;
    this.section.querySelector(".range").textContent = zoomed ? `${moment(from)} – ${moment(to)} UTC, ${lasting(to - from)}` : "";
  }

  zoom(from, to) {
    const least = 10000;
    if (to - from < least) { const middle = (from + to) / 2; from = middle - least / 2; to = middle + least / 2; }
    this.view = [Math.max(report.start, from), Math.min(report.end, to)];
    this.draw();
  }

  wire(chart) {
    const { plot } = chart;
    let start = null;
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const x = event.clientX - box.left;
      if (start !== null && Math.abs(x - start) > 4) {
        const [low, high] = [Math.min(x, start), Math.max(x, start)];
        for (const one of this.charts) { one.brush.setAttribute("x", low); one.brush.setAttribute("width", high - low); }
      }
      this.point(chart, chart.time(x), event.clientY - box.top, event.clientX, event.clientY);
    });
    plot.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      start = event.clientX - plot.getBoundingClientRect().left;
      plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const x = event.clientX - plot.getBoundingClientRect().left;
      const from = start;
      start = null;
      for (const one of this.charts) one.brush.setAttribute("width", 0);
      if (Math.abs(x - from) > 8) this.zoom(chart.time(Math.min(x, from)), chart.time(Math.max(x, from)));
    });
    plot.addEventListener("dblclick", () => this.zoom(report.start, report.end));
    plot.addEventListener("pointerleave", hideTip);
    plot.addEventListener("blur", hideTip);
    plot.addEventListener("keydown", (event) => this.key(chart, event));
    const alternative = chart.figure.querySelector("details");
    alternative.addEventListener("toggle", () => fillTable(alternative, chart));
  }

  point(chart, ms, y, clientX, clientY) {
    this.at = ms;
    this.row = y;
    for (const one of this.charts) one.hover(ms);
    showTip(ms, chart.tip(ms, y), clientX, clientY);
  }

  key(chart, event) {
    const [from, to] = this.view;
    const width = to - from;
    const at = clamp(this.at ?? (from + to) / 2, from, to);
    const cell = chart.cell || (chart.kind === "lanes" ? ROW : 0);
    let y = clamp(this.row ?? 0, MARGIN.top + 2, chart.bottom - 2);
    let next = at;
    if (event.key === "ArrowRight") next = Math.min(to, at + width / 80);
    else if (event.key === "ArrowLeft") next = Math.max(from, at - width / 80);
    else if (event.key === "ArrowDown" && cell) y = Math.min(chart.bottom - 2, y + cell);
    else if (event.key === "ArrowUp" && cell) y = Math.max(MARGIN.top + 2, y - cell);
    else if (event.key === "+") return this.zoom(at - width / 4, at + width / 4);
    else if (event.key === "-") return this.zoom(at - width, at + width);
    else if (event.key === "0" || event.key === "Escape") { hideTip(); return this.zoom(report.start, report.end); }
    else return undefined;
    event.preventDefault();
    const box = chart.plot.getBoundingClientRect();
    return this.point(chart, next, y, box.left + chart.x(next), box.top + (cell ? y : 30));
  }
}

function showTip(ms, rows, x, y) {
  if (!rows.length) return hideTip();
  const body = rows.map(([name, value, className]) =>
    html("tr", { class: className || "" }, html("th", { scope: "row" }, name), html("td", {}, value)));
  tip.replaceChildren(html("p", {}, `${moment(ms)} UTC`), html("table", {}, html("tbody", {}, ...body)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth ? x - box.width - 16 : x + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${clamp(y + 16, 4, innerHeight - box.height - 4)}px`;
  return undefined;
}

function hideTip() {
  tip.hidden = true;
}

function fillTable(details, chart) {
  if (!details.open || details.querySelector("table")) return;
  const [head, rows, more] = chart.table();
  const table = html("table", {},
    html("thead", {}, html("tr", {}, ...head.map((text) => html("th", { scope: "col" }, text)))),
    html("tbody", {}, ...rows.map((row) => html("tr", {}, ...row.map((text) => html("td", {}, String(text)))))));
  const title = `${chart.figure.querySelector("figcaption").firstChild.textContent} of ${chart.group.section.dataset.name}`;
  const box = html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table);
  details.append(box);
  sayIfWide(box);
  if (more > 0) details.append(html("p", { class: "note" }, `${more} more rows are left out.`));
}

// Adds a note to a table that is wider than its box, as some systems show no scrollbar.
const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) target.previousElementSibling.hidden = target.scrollWidth <= target.clientWidth;
});

function sayIfWide(box) {
  box.before(html("p", { class: "note hint", hidden: "" }, "This table is wider than the page: scroll sideways to see all columns →"));
  widths.observe(box);
}

for (const box of document.querySelectorAll(".scroll")) sayIfWide(box);

const groups = new Map();

function shown(section) {
  if (!groups.has(section.id)) groups.set(section.id, new Group(section));
  return groups.get(section.id);
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries)
    if (entry.isIntersecting) { watcher.unobserve(entry.target); shown(entry.target); }
}, { rootMargin: "600px" });
for (const section of document.querySelectorAll("section.group")) watcher.observe(section);

// A finding's link also zooms to the time of the finding.
for (const link of document.querySelectorAll("a[data-group]"))
  link.addEventListener("click", () => {
    const group = shown(document.getElementById(link.dataset.group));
    if (!link.dataset.since) return;
    const since = Number(link.dataset.since), until = Number(link.dataset.until || report.end);
    const around = Math.max((until - since) * 0.25, 5 * MINUTE);
    group.zoom(since - around, until + around);
  });

const filter = document.getElementById("filter");
filter.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  for (const node of document.querySelectorAll("[data-name]"))
    node.hidden = !node.dataset.name.toLowerCase().includes(wanted);
});

const THEMES = ["auto", "light", "dark"];
const theme = document.getElementById("theme");
theme.addEventListener("click", () => {
  const now = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "auto") + 1) % 3];
  document.documentElement.dataset.theme = now;
  theme.textContent = `Theme: ${now}`;
});
document.documentElement.classList.add("live");
