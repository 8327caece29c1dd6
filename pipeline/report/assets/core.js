// What the charts share: elements, formats, scales. Text is only ever set as text, never as HTML.
const SVG = "http://www.w3.org/2000/svg";
const MINUTE = 60000, HOUR = 3600000, DAY = 86400000;

const report = JSON.parse(document.getElementById("report-data").textContent);

function svg(name, attributes, parent) {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (parent) parent.append(node);
  return node;
}

function html(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function short(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of UNITS)
    if (Math.abs(value) >= size) return trimmed(value / size) + unit;
  return trimmed(value);
}

function trimmed(value) {
  return String(Number(value.toPrecision(3)));
}

function exact(value) {
  if (value === null || value === undefined) return "not known";
  return value.toLocaleString("en", { maximumFractionDigits: 2 });
}

function lasting(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < MINUTE) return trimmed(ms / 1000) + " s";
  const parts = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [1000, "s"]];
  const first = parts.findIndex(([size]) => ms >= size);
  const [size, unit] = parts[first];
  const whole = Math.floor(ms / size);
  const rest = parts[first + 1] ? Math.floor((ms - whole * size) / parts[first + 1][0]) : 0;
  return `${whole} ${unit}` + (rest ? ` ${rest} ${parts[first + 1][1]}` : "");
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (number) => String(number).padStart(2, "0");

function day(ms) {
  const date = new Date(ms);
  return `${MONTHS[date.getUTCMonth()]} ${date.getUTCDate()}`;
}

function clock(ms, seconds) {
  const date = new Date(ms);
  const text = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  return seconds ? `${text}:${two(date.getUTCSeconds())}` : text;
}

function moment(ms) {
  return `${day(ms)}, ${clock(ms, true)}`;
}

const STEPS = [1000, 5000, 15000, 30000, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR,
  3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY];

function timeTicks(from, to, room) {
  const step = STEPS.find((one) => (to - from) / one <= room) || STEPS[STEPS.length - 1];
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step)
    ticks.push([at, at % DAY === 0 ? day(at) : clock(at, step < MINUTE)]);
  return ticks;
}

function valueTicks(top, room) {
  if (!(top > 0)) return [0];
  const rough = top / room;
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * base).find((one) => one >= rough);
  const ticks = [];
  for (let at = 0; at <= top * 1.0001; at += step) ticks.push(at);
  return ticks;
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

// Eight hues for members, used in turn. Names are also shown beside the bars and in the tooltips.
const hue = (lane) => `hue${lane % 8}`;
