// The four charts of a group. They share the time axis of their group and one cursor.
const MARGIN = { top: 8, right: 14, bottom: 24 };
const ROW = 22, CELL = 16;

class Chart {
  constructor(group, figure) {
    this.group = group;
    this.figure = figure;
    this.plot = figure.querySelector(".plot");
    this.kind = figure.dataset.chart;
  }

  get margin() {
    return { ...MARGIN, left: this.plot.clientWidth < 620 ? 76 : 148 };
  }

  x(ms) {
    const [from, to] = this.group.view;
    return this.margin.left + ((ms - from) / (to - from)) * this.inner;
  }

  time(x) {
    const [from, to] = this.group.view;
    return from + (clamp((x - this.margin.left) / this.inner, 0, 1)) * (to - from);
  }

  draw() {
    const width = Math.max(320, this.plot.clientWidth);
    const height = this.height();
    this.inner = width - this.margin.left - this.margin.right;
    this.bottom = height - MARGIN.bottom;
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const clip = `${this.figure.id}-clip`;
    svg("rect", { x: this.margin.left, y: 0, width: this.inner, height },
      svg("clipPath", { id: clip }, root));
    this.axis(root);
    this.body = svg("g", { "clip-path": `url(#${clip})` }, root);
    this.paint(root);
    this.cursor = svg("line", { class: "cursor", y1: MARGIN.top, y2: this.bottom, x1: -9, x2: -9 }, root);
    this.brush = svg("rect", { class: "brush", y: MARGIN.top, height: this.bottom - MARGIN.top, width: 0 }, root);
    this.plot.replaceChildren(root);
  }

  axis(root) {
    const [from, to] = this.group.view;
    for (const [at, label] of timeTicks(from, to, Math.max(2, this.inner / 90))) {
      const x = this.x(at);
      svg("line", { class: "grid", x1: x, x2: x, y1: MARGIN.top, y2: this.bottom }, root);
      const end = this.margin.left + this.inner;
      const anchor = x > end - 16 ? "end" : "middle";
      const text = svg("text", { class: "tick", x: anchor === "end" ? end + 8 : x, y: this.bottom + 16, "text-anchor": anchor }, root);
      text.textContent = label;
    }
  }

  label(root, text, y, className) {
    const room = Math.floor((this.margin.left - 22) / 6.4);
    const node = svg("text", { class: className || "tick", x: this.margin.left - 10, y, "text-anchor": "end" }, root);
    node.textContent = text.length > room ? "…" + text.slice(text.length - room + 1) : text;
  }

  // Marks the times of findings, behind the lines and bars of the chart.
  findings(matches) {
    for (const finding of this.group.data.findings) {
      if (!matches(finding) || finding.since === null) continue;
      const x = this.x(finding.since);
      const end = this.x(finding.until === null ? report.end : finding.until);
      svg("rect", { class: `finding ${finding.severity}`, x, width: Math.max(2, end - x), y: MARGIN.top,
        height: this.bottom - MARGIN.top }, this.body);
      svg("rect", { class: `edge ${finding.severity}`, x, width: Math.max(2, end - x), y: MARGIN.top,
        height: 3 }, this.body);
    }
  }

  hover(ms) {
    this.cursor.setAttribute("x1", this.x(ms));
    this.cursor.setAttribute("x2", this.x(ms));
  }
}

class Lines extends Chart {
  constructor(group, figure) {
    super(group, figure);
    this.series = group.data[this.kind];
    this.step = (report.end - report.start) / report.steps;
    this.unit = this.kind === "lag" ? " records" : " records/s";
    this.hot = new Set(group.data.findings.filter((one) => one.partition !== null && this.kind === "lag")
      .map((one) => `${one.topic}-${one.partition}`));
  }

  height() { return this.kind === "lag" ? 216 : 132; }

  index(ms) { return clamp(Math.floor((ms - report.start) / this.step), 0, report.steps - 1); }

  paint(root) {
    const { total, lines } = this.series;
    const [from, to] = this.group.view.map((ms) => this.index(ms));
    let top = 0;
    for (let at = from; at <= to; at++) top = Math.max(top, total[at] || 0);
    const ticks = valueTicks(top || 1, this.kind === "lag" ? 4 : 2);
    const high = Math.max(top, ticks[ticks.length - 1]) || 1;
    const y = (value) => this.bottom - (value / high) * (this.bottom - MARGIN.top - 6);
    for (const tick of ticks) {
      svg("line", { class: "grid", x1: this.margin.left, x2: this.margin.left + this.inner, y1: y(tick), y2: y(tick) }, root);
      this.label(root, short(tick), y(tick) + 4);
    }
    root.append(this.body);
    if (this.kind === "lag") this.findings((one) => one.table !== "rebalances" && one.table !== "members");
    this.y = y;
    const middle = (at) => this.x(report.start + (at + 0.5) * this.step);
    for (const run of runs(total, from - 1, to + 1)) {
      const points = run.map(([at, value]) => `${middle(at).toFixed(1)},${y(value).toFixed(1)}`);
      if (points.length === 1) points.push(points[0]);
      const base = this.bottom.toFixed(1);
      svg("polygon", { class: `area ${this.kind}`, points: `${points[0].split(",")[0]},${base} ${points.join(" ")} ${points[points.length - 1].split(",")[0]},${base}` }, this.body);
      svg("polyline", { class: `line ${this.kind}`, points: points.join(" ") }, this.body);
    }
    for (const [topic, partition, values] of lines) {
      const hot = this.hot.has(`${topic}-${partition}`);
      if (this.kind !== "lag" && !hot) continue;
      for (const run of runs(values, from - 1, to + 1))
        svg("polyline", { class: hot ? "thin hot" : "thin",
          points: run.map(([at, value]) => `${middle(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }, this.body);
    }
  }

  tip(ms) {
    const at = this.index(ms);
    const { total, lines, others } = this.series;
    const rows = [[this.kind === "lag" ? "Lag, all partitions" : "Consumed, all partitions",
      total[at] === null ? "not known" : exact(total[at]) + this.unit, "strong"]];
    const now = lines.map(([topic, partition, values]) => [`${topic}-${partition}`, values[at]])
      .filter(([, value]) => value !== null).sort((a, b) => b[1] - a[1]);
    for (const [name, value] of now.slice(0, 5)) rows.push([name, exact(value), this.hot.has(name) ? "hot" : ""]);
    const more = now.length - Math.min(5, now.length) + others;
    if (more > 0) rows.push([`${more} more`, ""]);
    return rows;
  }

  table() {
    const every = Math.max(1, Math.ceil(report.steps / 60));
    const names = this.series.lines.map(([topic, partition]) => `${topic}-${partition}`);
    const rows = [];
    for (let at = 0; at < report.steps; at += every)
      rows.push([moment(report.start + (at + 1) * this.step), exact(this.series.total[at]),
        ...this.series.lines.map(([, , values]) => short(values[at]))]);
    return [["Until", "All partitions", ...names], rows];
  }
}

// Stretches of known values with their positions.
function* runs(values, from, to) {
  let run = [];
  for (let at = Math.max(0, from); at <= Math.min(values.length - 1, to); at++) {
    if (values[at] !== null) { run.push([at, values[at]]); continue; }
    if (run.length) yield run;
    run = [];
  }
  if (run.length) yield run;
}

const STATES = { stable: "stable", revoking: "giving partitions up", waiting: "waiting for partitions", away: "away for a while" };
const ENDS = { left: "left", expired: "session expired", "rebalance-timeout": "fenced: too slow to give partitions up",
  replaced: "replaced by its next incarnation", converted: "the group changed its protocol", removed: "removed: left or fenced" };
const FENCED = new Set(["expired", "rebalance-timeout"]);

class Lanes extends Chart {
  get lanes() { return this.group.data.lanes; }

  height() { return MARGIN.top + ROW + this.lanes.length * ROW + 6 + MARGIN.bottom; }

  top(lane) { return MARGIN.top + ROW + lane * ROW + 4; }

  paint(root) {
    this.findings((one) => one.table === "rebalances" || one.table === "members");
    this.label(root, "rebalances", MARGIN.top + 15, "tick quiet");
    for (const [since, until] of this.group.data.marks) {
      const x = this.x(since);
      const width = Math.max(1.5, this.x(until) - x);
      svg("rect", { class: "rebalance", x, width, y: MARGIN.top + 5, height: ROW - 9 }, this.body);
      svg("rect", { class: "shade", x, width, y: MARGIN.top + ROW, height: this.bottom - MARGIN.top - ROW }, this.body);
    }
    this.lanes.forEach((name, lane) => {
      this.label(root, name, this.top(lane) + 12);
      svg("line", { class: "grid", x1: this.margin.left, x2: this.margin.left + this.inner, y1: this.top(lane) - 2, y2: this.top(lane) - 2 }, root);
    });
    const [from, to] = this.group.view;
    const ends = svg("g", { "clip-path": this.body.getAttribute("clip-path") }, root);
    const last = [];
    for (const life of this.group.data.lives) {
      if (life.joined > to || (life.ended ?? report.end) < from) continue;
      const y = this.top(life.lane);
      for (const [since, until, state] of life.spans) {
        const x = this.x(since);
        const width = Math.max(1, this.x(until ?? report.end) - x);
        svg("rect", { class: `bar ${hue(life.lane)} ${state}`, x, width, y, height: ROW - 8 }, this.body);
      }
      if (life.ended === null) continue;
      const x = this.x(life.ended), middle = y + (ROW - 8) / 2;
      const crowded = x - (last[life.lane] ?? -99) < 12;
      last[life.lane] = x;
      if (FENCED.has(life.endedBy) && crowded) {
        svg("rect", { class: "fence", x: x - 1, y: y - 1, width: 2, height: ROW - 6 }, ends);
      } else if (FENCED.has(life.endedBy)) {
        svg("circle", { class: "fence round", cx: x, cy: middle, r: 5.5 }, ends);
        svg("path", { class: "cross", d: `M${x - 2.4} ${middle - 2.4}l4.8 4.8m0-4.8l-4.8 4.8` }, ends);
      } else {
        svg("rect", { class: crowded ? "leave thin-mark" : "leave", x: x - (crowded ? 0.5 : 1.5), y: y - 1, width: crowded ? 1 : 3, height: ROW - 6 }, ends);
      }
    }
  }

  tip(ms, y) {
    const lane = Math.floor((y - this.top(0) + 4) / ROW);
    const near = (this.time(1) - this.time(0) || (this.group.view[1] - this.group.view[0]) / this.inner) * 4;
    if (lane < 0 || lane >= this.lanes.length) {
      const found = this.group.data.rebalances.filter((one) => one.since - near <= ms && ms <= one.since + (one.ms || 0) + near);
      const rows = [["Rebalances here", found.length ? String(found.length) : "none", "strong"]];
      for (const one of found.slice(0, 4)) rows.push([`epoch ${one.epoch}`, `${one.trigger}, ${lasting(one.ms)}`]);
      return rows;
    }
    const lives = this.group.data.lives.filter((life) => life.lane === lane &&
      life.joined - near <= ms && ms <= (life.ended ?? report.end) + near);
    const life = lives[lives.length - 1];
    if (!life) return [[this.lanes[lane], "not in the group", "strong"]];
    const rows = [[this.lanes[lane], life.host, "strong"], ["member id", life.id]];
    const span = life.spans.find(([since, until]) => since <= ms && ms < (until ?? report.end + 1));
    if (span) rows.push(["state", STATES[span[2]] || span[2]], ["epoch", String(span[3])], ["partitions", String(span[4])]);
    rows.push(["joined", moment(life.joined)]);
    if (life.ended !== null) rows.push([FENCED.has(life.endedBy) ? "✕ ended" : "ended", `${moment(life.ended)}: ${ENDS[life.endedBy] || life.endedBy || "not known"}`, FENCED.has(life.endedBy) ? "hot" : ""]);
    return rows;
  }

  table() {
    return [["Member", "Member id", "Host", "Joined", "Ended", "How"],
      this.group.data.lives.map((life) => [this.lanes[life.lane], life.id, life.host, moment(life.joined),
        life.ended === null ? "–" : moment(life.ended), life.ended === null ? "alive" : ENDS[life.endedBy] || life.endedBy || "not known"])];
  }
}

class Ownership extends Chart {
  get places() { return this.group.data.places; }

  get cell() { return this.places.length > 40 ? 10 : CELL; }

  height() { return MARGIN.top + this.places.length * this.cell + 4 + MARGIN.bottom; }

  paint(root) {
    const hot = new Set(this.group.data.findings.filter((one) => one.partition !== null)
      .map((one) => `${one.topic}-${one.partition}`));
    const cell = this.cell;
    this.places.forEach(([topic, partition], row) => {
      const y = MARGIN.top + row * cell;
      const name = `${topic}-${partition}`;
      svg("rect", { class: "unowned", x: this.x(report.start), y, width: this.x(report.end) - this.x(report.start), height: cell - 1 }, this.body);
      if (cell >= 12 || row % 2 === 0) this.label(root, name, y + cell - 4, hot.has(name) ? "tick hot" : "tick");
    });
    const [from, to] = this.group.view;
    for (const [place, life, since, until] of this.group.data.holdings) {
      const end = until ?? report.end;
      if (since > to || end < from) continue;
      const x = this.x(since);
      svg("rect", { class: `own ${hue(this.group.data.lives[life].lane)}`, x, width: Math.max(0.8, this.x(end) - x - 0.6),
        y: MARGIN.top + place * cell, height: cell - 1 }, this.body);
    }
  }

  tip(ms, y) {
    const row = Math.floor((y - MARGIN.top) / this.cell);
    if (row < 0 || row >= this.places.length) return [];
    const [topic, partition] = this.places[row];
    const held = this.group.data.holdings.find(([place, , since, until]) => place === row && since <= ms && ms < (until ?? report.end + 1));
    const rows = [[`${topic}-${partition}`, held ? "" : "read by nobody", "strong"]];
    if (held) {
      const life = this.group.data.lives[held[1]];
      rows.push(["read by", this.group.data.lanes[life.lane]], ["member id", life.id], ["since", moment(held[2])],
        ["for", lasting((held[3] ?? report.end) - held[2]) + (held[3] === null ? " and on" : "")]);
    }
    return rows;
  }

  table() {
    const { holdings, lives, lanes } = this.group.data;
    const rows = holdings.slice(0, 500).map(([place, life, since, until]) => [this.places[place].join("-"),
      lanes[lives[life].lane], moment(since), until === null ? "–" : moment(until), lasting((until ?? report.end) - since)]);
    return [["Partition", "Read by", "Since", "Until", "For"], rows, holdings.length - rows.length];
  }
}

const KINDS = { lag: Lines, rate: Lines, lanes: Lanes, ownership: Ownership };
