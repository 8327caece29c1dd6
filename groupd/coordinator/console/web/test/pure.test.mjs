// Functions whose mistakes would hide in the pages: framing of events, rows in view, numbers in short, the picture of a group.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, test } from "node:test";
import { build } from "esbuild";

const folder = await mkdtemp(join(tmpdir(), "console-test-"));
after(() => rm(folder, { recursive: true }));
const outfile = join(folder, "pure.mjs");
const names = ["data/sse", "data/api", "data/groups", "data/poll", "data/session", "data/stream", "format", "router", "ui/window", "ui/sort", "charts/matrix_data", "charts/sparkline", "charts/strip", "charts/timeline", "charts/lanes_data", "charts/ownership_data", "charts/utc", "pages/group/model", "pages/group/lag", "pages/group/share", "pages/offsets_form", "pages/offsets_rows", "pages/offsets_moves"];
await build({
  stdin: { contents: names.map((name) => `export * from "./src/${name}";`).join("\n"), resolveDir: process.cwd(), loader: "ts" },
  outfile,
  bundle: true,
  format: "esm",
  platform: "node",
  // No document here.
  banner: {
    js: `const nobody = () => undefined;
globalThis.sessionStorage ??= { getItem: () => null, setItem: nobody, removeItem: nobody };`,
  },
});
const it = await import(pathToFileURL(outfile).href);

test("records of a share group that were delivered before and are not finished", () => {
  const range = (first_offset, state, delivery_count, last_offset = first_offset) => ({ first_offset, last_offset, state, delivery_count });
  const share = { partitions: [
    { topic: "t", partition: 0, in_flight: [range(1, "acquired", 1), range(2, "acquired", 2)] },
    { topic: "t", partition: 3, in_flight: [range(1000, "available", 3, 1999), range(2000, "archived", 5)] },
  ] };
  const rows = it.rangesOf(share);
  assert.deepEqual(rows.map((one) => [one.partition, one.first_offset]), [[0, 1], [0, 2], [3, 1000], [3, 2000]]);
  assert.deepEqual(rows.filter(it.isPoison).map(it.offsetsText), ["2", "1,000–1,999"]);
});

test("events come out whole, however the text is cut", () => {
  const text = ": keep-alive\n\nevent: snapshot\ndata: {\"a\":1}\ndata: 2\r\n\r\ndata:x\n\nid: 7\n\n";
  const wanted = [{ name: "snapshot", data: "{\"a\":1}\n2" }, { name: "message", data: "x" }];
  for (let size = 1; size <= text.length; size++) {
    const parser = new it.SseParser();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.feed(text.slice(at, at + size)));
    assert.deepEqual(found, wanted);
  }
});

test("an event that has not ended is not given out", () => {
  const parser = new it.SseParser();
  assert.deepEqual(parser.feed("data: 1\n"), []);
  assert.deepEqual(parser.feed("\n"), [{ name: "message", data: "1" }]);
});

test("only rows in view and some around them are in the document", () => {
  assert.deepEqual(it.visible(10_000, 30, 0, 600), { first: 0, end: 28 });
  assert.deepEqual(it.visible(10_000, 30, 150_000, 600), { first: 4992, end: 5028 });
  assert.deepEqual(it.visible(10, 30, 9000, 600), { first: 2, end: 10 });
  assert.deepEqual(it.visible(0, 30, 0, 600), { first: 0, end: 0 });
  assert.equal(it.scrolledTo(3, 30, 300, 600), 90);
  assert.equal(it.scrolledTo(40, 30, 300, 600), 630);
  assert.equal(it.scrolledTo(12, 30, 300, 600), 300);
});

test("what is not known comes last in either direction", () => {
  const rows = [{ k: 2 }, { k: null }, { k: 10 }, { k: 1 }];
  const order = (direction) => it.sorted(rows, (row) => row.k, direction).map((row) => row.k);
  assert.deepEqual(order("ascending"), [1, 2, 10, null]);
  assert.deepEqual(order("descending"), [10, 2, 1, null]);
  assert.deepEqual(it.sorted(["g-10", "g-9"], (name) => name, "ascending"), ["g-9", "g-10"]);
});

test("numbers and times in short", () => {
  const cases = [[0, "0"], [999, "999"], [1000, "1k"], [12_345, "12.3k"], [123_456, "123k"], [999_950, "1M"], [-2500, "−2.5k"], [1e18, "1000P"], [null, "–"]];
  for (const [value, text] of cases) assert.equal(it.short(value), text);
  assert.deepEqual([1.44, 12.4, 999.7, 9400, 94_000, 3_661_000, 7_200_000].map(it.duration), ["1.4 ms", "12 ms", "1 s", "9.4 s", "1 min 34 s", "1 h 1 min", "2 h"]);
  assert.equal(it.runs([0, 1, 2, 5, 7, 8]), "0–2, 5, 7–8");
  assert.equal(it.runs([0, 2, 4, 6], 2), "0, 2 and 2 more");
  assert.equal(it.middle("abcdefghij", 7), "abc…hij");
});

test("addresses name pages, whatever a group is called", () => {
  for (const id of ["billing", "team/a b", "100%", "#/health", "ä", ".", "..", ""]) {
    assert.deepEqual(it.parse(it.groupHash(id)), { page: "group", groupId: id });
    assert.deepEqual(it.parse(it.groupHash(id, "offsets")), { page: "offsets", groupId: id });
  }
  assert.deepEqual(it.parse(""), { page: "groups" });
  assert.deepEqual(it.parse("#/health"), { page: "health" });
  for (const bad of ["#/group", "#/group/a/b", "#/group/%E0%A4%A", "#/nothing"]) assert.deepEqual(it.parse(bad), { page: "unknown" });
});

test("every id has a path that a browser leaves as it is", () => {
  for (const id of ["billing", "team/a b", "=", ".", "..", ""]) {
    const url = new URL(`live/${it.groupPath(id, "/lag")}`, "http://localhost/");
    const [live, groups, name, lag] = url.pathname.slice(1).split("/");
    assert.deepEqual([live, lag], ["live", "lag"]);
    assert.deepEqual(decodeURIComponent(name), groups === "groups" ? id : `=${id}`);
  }
  assert.equal(it.groupPath("..", "/offsets/reset"), "groups-named/=../offsets/reset");
});

// As much of a browser as a stream takes.
const listening = { addEventListener: () => undefined, removeEventListener: () => undefined };
globalThis.document = { hidden: false, ...listening };
globalThis.window = { setTimeout, clearTimeout, ...listening };

// A stream whose connection answers with this text, and what it is after that.
async function streamed(text, { until = "reconnecting", onEvent = () => undefined } = {}) {
  globalThis.fetch = async () => new Response(text);
  const stream = new it.LiveStream("live/groups", onEvent);
  const seen = [];
  await new Promise((resolve) => {
    stream.status.watch(() => {
      seen.push(stream.status.value);
      if (stream.status.value.phase === until) resolve();
    });
    stream.start();
  });
  stream.stop();
  return seen;
}

test("an event that cannot be read is not taken for a server that does not answer", async () => {
  const broken = "event: snapshot\ndata: {\n  \"a\": 1\n}\n\n";
  const [status] = await streamed(broken);
  assert.match(status.trouble, /^This page cannot read what the admin port sends: SyntaxError/);
  const [other] = await streamed("data: 1\n\n", { onEvent: () => null.rows });
  assert.match(other.trouble, /^This page cannot read what the admin port sends: TypeError/);
  globalThis.fetch = async () => Promise.reject(new TypeError("fetch failed"));
  assert.equal(it.told(new TypeError("fetch failed")), "The admin port does not answer.");
});

test("an event that cannot be read ends its connection", async () => {
  const signals = [];
  globalThis.fetch = async (url, init) => {
    signals.push(init.signal);
    return new Response(new ReadableStream({ start: (to) => to.enqueue(new TextEncoder().encode("event: snapshot\ndata: {\n\n")) }));
  };
  const stream = new it.LiveStream("live/groups", () => {});
  const ended = new Promise((resolve) => stream.status.watch(() => stream.status.value.phase === "reconnecting" && resolve()));
  stream.start();
  await ended;
  assert.deepEqual(signals.map((one) => one.aborted), [true]);
  stream.stop();
});

test("a stream says when what it tells is out of date, and when that is over", async () => {
  const text = 'event: snapshot\ndata: {}\n\nevent: stale\ndata: {"told":"7 shards are not active yet"}\n\nevent: fresh\ndata: {}\n\n';
  const seen = await streamed(text);
  assert.deepEqual(seen.map((one) => [one.phase, one.trouble]), [
    ["live", null],
    ["outdated", "7 shards are not active yet"],
    ["live", null],
    ["reconnecting", "The connection has ended."],
  ]);
  assert.equal(seen[1].at, seen[0].at);
});

test("who may see something already can go on with the token of before", () => {
  const now = () => [it.session.value.token, it.session.value.asked === null, it.session.value.optional];
  it.signIn("read");
  it.askAgain("Moving offsets takes the role admin.");
  assert.deepEqual(now(), ["read", false, true]);
  it.signIn("wrong");
  it.askForToken("wrong");
  assert.deepEqual(now(), ["wrong", false, true]);
  it.cancelSignIn();
  assert.deepEqual(now(), ["read", true, false]);
  it.askForToken("read");
  assert.deepEqual(now(), ["read", false, false]);
  const { round } = it.session.value;
  it.signIn("read"); // the same again, since it is in the file of tokens now
  assert.equal(it.session.value.round, round + 1);
  it.signOut();
  assert.deepEqual([...now(), it.session.value.signedOut], [null, false, false, true]);
  it.signIn("admin");
  assert.equal(it.session.value.signedOut, false);
});

test("a poll waits for its answer, and asks nothing that nobody sees or that would be refused", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const asked = []; // the answers that are waited for
  const pause = async () => {
    t.mock.timers.tick(2000);
    for (let turn = 0; turn < 5; turn++) await null;
    return asked.length;
  };
  let signal = null;
  const stop = it.poll((its) => {
    signal = its;
    return new Promise((resolve, reject) => asked.push({ resolve, reject }));
  }, 2000);
  assert.deepEqual([await pause(), await pause(), signal.aborted], [1, 1, false]); // a slow answer
  asked[0].resolve();
  await pause();
  assert.equal(await pause(), 2);
  it.askForToken(it.session.value.token);
  asked[1].reject(new Error("401"));
  for (let round = 0; round < 4; round++) assert.equal(await pause(), 2);
  it.signIn("another");
  document.hidden = true;
  assert.equal(await pause(), 2);
  document.hidden = false;
  assert.equal(await pause(), 3);
  stop();
  asked[2].resolve();
  await pause();
  assert.deepEqual([await pause(), signal.aborted], [3, true]);
});

test("the next page of an answer", () => {
  assert.equal(it.nextPage('</groups/a%2Fb/offsets?after=t-3>; rel="next"'), "groups/a%2Fb/offsets?after=t-3");
  assert.equal(it.nextPage(null), null);
  assert.equal(it.nextPage('</x>; rel="prev"'), null);
});

const member = (id, owned, revoking = {}, target = owned) => ({ id, label: id, owned, revoking, target });

test("the picture shows who has, gives up and awaits a partition, and what nobody has", () => {
  const matrix = it.matrixOf([member("a", { t: [0] }, { t: [2] }, { t: [0] }), member("b", {}, {}, { t: [2] })], [{ topic: "t", partition: 10 }]);
  assert.deepEqual(matrix.columns.map((one) => one.partition), [0, 2, 10]);
  const cells = Array.from(matrix.row, (row, at) => [matrix.rows[row].label, matrix.columns[matrix.column[at]].partition, matrix.kind[at]]);
  assert.deepEqual(new Set(cells.map(String)), new Set(["a,2,1", "a,0,0", "b,2,2", "nobody,10,3"]));
});

test("a partition that changes hands is a move", () => {
  const before = it.matrixOf([member("a", { t: [0, 1] }), member("b", { t: [2] })], []);
  const after = it.matrixOf([member("a", { t: [0] }), member("b", { t: [1, 2] })], []);
  assert.deepEqual(it.movesBetween(before, after), [{ column: 1, from: 0, to: 1 }]);
  assert.deepEqual(it.movesBetween(after, after), []);
});

test("a large picture keeps every partition and fits its room", () => {
  const members = Array.from({ length: 10_000 }, (_, at) => member(`m${at}`, { t: [at, at + 10_000] }));
  const matrix = it.matrixOf(members, []);
  const layout = it.layoutOf(matrix, 1400);
  assert.ok(layout.binsX * layout.cellWidth + layout.left <= 1400 && layout.height < 500);
  assert.equal(it.binned(matrix, layout).reduce((sum, one) => sum + one, 0), 20_000);
});

test("members with one client id have names that differ", () => {
  const of = (member_id, client_id) => ({ member_id, client_id, instance_id: null, client_host: "", owned: {} });
  const labels = it.labelsOf([of("w-061afb71-50fd", "w"), of("w-161afb71-50fd", "w"), of("x-1", "x")]);
  assert.deepEqual([...labels.values()], ["w · 061afb71", "w · 161afb71", "x"]);
});

test("a cause in short, whoever is in it", () => {
  const cause = "member x1 (client a) left: the member asked to leave; member y 2 (client b) joined";
  assert.equal(it.brief(cause), "a left: the member asked to leave; b joined");
});

test("a time for a field is a local one, to the millisecond", () => {
  const ms = Date.parse("2026-01-02T03:04:05.678Z");
  assert.equal(Date.parse(it.localTime(ms)), ms);
});

test("changes of the list of groups", () => {
  const row = (group_id, lag) => ({ group_id, lag, judgement: null, type: "consumer", state: "Stable", members: 1 });
  const whole = { more: false, missing: null, other_nodes: [] };
  const snapshot = it.foldGroups(null, "snapshot", { now_ms: 0, node: null, rows: [row("a", 1), row("b", 2)], ...whole });
  const lacks = { more: true, missing: "7 shards are not active yet", other_nodes: [{ node: 2, admin: "http://two:9644" }] };
  const after = it.foldGroups(snapshot, "changes", { now_ms: 0, rows: [row("b", 5), row("c", null)], gone: ["a"], ...lacks });
  assert.deepEqual([snapshot, after].map(({ more, missing, other_nodes }) => ({ more, missing, other_nodes })), [whole, lacks]);
  assert.deepEqual(after.rows.map((one) => [one.group_id, one.lag]), [["b", 5], ["c", null]]);
  assert.equal(it.foldGroups(null, "changes", { now_ms: 0, rows: [], gone: [] }), null);
  assert.equal(it.summarize(after.rows).lag, 5);
  assert.deepEqual(it.matching(after.rows, { ...it.NO_FILTER, text: " B " }).map((one) => one.group_id), ["b"]);
});

test("the form asks for what it shows, or says what is missing", () => {
  const partitions = [{ topic: "t", partition: 0 }, { topic: "t", partition: 1 }];
  const form = { target: "earliest", number: "", time: "", ms: null, deleteNew: false, chosen: null };
  const ask = (change) => it.requestOf("a/b", { ...form, ...change }, partitions);
  assert.deepEqual(ask({}), { path: "groups/a%2Fb/offsets/reset", body: { to: "earliest", value: null, partitions: null } });
  assert.deepEqual(ask({ target: "shift", number: "-5", chosen: new Set(["t-1"]) }).body, { to: "shift", value: -5, partitions: { t: [1] } });
  assert.deepEqual(ask({ target: "restore", time: "2026-01-02T03:04:05Z", deleteNew: true }).body, { at: "2026-01-02T03:04:05.000Z", delete_new: true });
  assert.equal(ask({ target: "time" }), "Choose a time.");
  assert.equal(ask({ target: "offset", number: "-1" }), "An offset is not negative.");
  assert.equal(ask({ target: "shift", number: "1.5" }), "Enter a whole number.");
  assert.equal(ask({ chosen: new Set() }), "Choose at least one partition.");
});

test("a time that was not typed is the same after clocks were put back", () => {
  const zone = process.env.TZ;
  process.env.TZ = "Europe/Berlin";
  try {
    const at = "2026-10-25T01:30:00.000Z"; // 02:30 for the second time on that day
    const form = { target: "restore", number: "", deleteNew: false, chosen: null, ...it.timeFields(Date.parse(at)) };
    assert.equal(form.time, "2026-10-25T02:30:00.000");
    assert.equal(it.requestOf("g", form, []).body.at, at);
    assert.equal(it.requestOf("g", { ...form, ms: null }, []).body.at, "2026-10-25T00:30:00.000Z");
  } finally {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  }
});

const change = (partition, from, to, action, records, more = {}) => ({ topic: "t", partition, from, to, action, records, warning: "", writes: action !== "keep", starts_anew: false, ...more });

test("a preview says what happens to records, one or many, and what starts anew", () => {
  const told = (...rows) => it.sentence(it.sumsOf(rows));
  assert.equal(told(change(0, 5, 4, "rewind", -1)), "1 record is read again");
  assert.equal(told(change(0, 5, 3, "rewind", -2), change(1, 5, 6, "forward", 1)), "2 records are read again; 1 record is skipped");
  assert.equal(told(change(0, 5, null, "delete", null, { starts_anew: true })), "1 partition starts anew, where auto.offset.reset says");
  assert.equal(told(change(0, null, 5, "first", null), change(1, null, 5, "first", null)), "2 partitions get their first offset");
  assert.equal(told(change(0, 5, 9, "commit", null)), "1 partition could not be looked at");
  assert.equal(told(change(0, 5, 5, "keep", 0)), "No record is read again or skipped");
  assert.deepEqual([[5, 4, -1], [4, 5, 1], [5, 5, 0], [null, 5, null], [5, 9, null]].map(([from, to, records]) => it.recordsText(change(0, from, to, "commit", records))), ["1 read again", "1 skipped", "0", "first offset", "not known"]);
});

test("what is sent back is what was shown and would be written", () => {
  const rows = [change(0, 5, 4, "rewind", -1), change(1, 5, 5, "keep", 0), change(2, null, 3, "first", null), change(7, 5, null, "delete", null)];
  assert.deepEqual(it.applyOf(rows), { t: [[0, 5, 4], [2, null, 3], [7, 5, null]] });
  assert.equal(JSON.stringify(it.applyOf([{ ...rows[0], topic: "__proto__" }])), '{"__proto__":[[0,5,4]]}');
});

test("a history begins where something is known, but is never too short to be read", () => {
  const total = [...Array(40).fill(null), 1, ...Array(19).fill(2)];
  const history = { times_ms: total.map((_, at) => at), total, partitions: [{ topic: "t", partition: 0, lag: total }] };
  const shown = it.fromFirst(history);
  assert.deepEqual([shown.times_ms[0], shown.total.length, shown.partitions[0].lag.length], [40, 20, 20]);
  assert.equal(it.fromFirst({ ...history, total: [...Array(59).fill(null), 1] }).times_ms[0], 45);
  assert.equal(it.fromFirst(shown), shown);
});

test("a line without axes shows gaps and single values", () => {
  assert.equal(it.path([null, 4, null, 0, 4], 40, 20), "M10.0 1.5h0.01M30.0 18.5L40.0 1.5");
  assert.deepEqual(it.ticksBetween(0, 60_000, 4), [0, 15_000, 30_000, 45_000, 60_000]);
});

test("causes name clients in short, and authors of moves", () => {
  const joined = "member 3k9sQ (client billing-1) joined";
  assert.equal(it.brief(`${joined}; member b-7 (client b (2)) was fenced: no heartbeat`), "billing-1 joined; b (2) was fenced: no heartbeat");
  assert.equal(it.brief("member 3k9sQ joined; and 3 more"), "member 3k9sQ joined; and 3 more");
  assert.equal(it.authorOf("owner 3k9 client=a/b/10.0.0.7 epoch=3"), "a/b at 10.0.0.7");
  assert.equal(it.authorOf("admin/simple"), "a tool; the group had no members");
  assert.equal(it.authorOf("unknown epoch=4"), "unknown epoch=4");
});

test("a timeline keeps its zoom within the whole time", () => {
  const time = new it.Timeline({ from: 0, to: 3_600_000 });
  time.zoom(-5000, 600_000);
  assert.deepEqual([time.view.value, time.zoomed], [{ from: 0, to: 600_000 }, true]);
  time.zoom(300_000, 301_000);
  assert.deepEqual(time.view.value, { from: 295_500, to: 305_500 });
  time.zoom(5_000_000, 6_000_000);
  assert.deepEqual(time.view.value, { from: 295_500, to: 305_500 });
  time.reset();
  assert.equal(time.zoomed, false);
});

test("a place on the scale is the moment that is drawn there", () => {
  for (const width of [380, 1440]) {
    const scale = it.scaleOf(width, { from: 1000, to: 2000 });
    assert.equal(it.timeAt(scale, scale.left + it.xOf(scale, 1250)), 1250);
    assert.deepEqual([it.timeAt(scale, 0), it.timeAt(scale, width)], [1000, 2000]);
  }
});

const WHOLE = { from: 0, to: 100_000 };
const LIVES = [
  { id: "a1", lane: 0, host: "/h", joined: 0, ended: 50_000, endedBy: "expired", spans: [[0, 50_000, "stable", 3, 2]] },
  { id: "a2", lane: 0, host: "/h", joined: 60_000, ended: null, endedBy: null, spans: [[60_000, null, "waiting", 4, 1]] },
];
const LANES = { lanes: ["worker"], lives: LIVES, marks: [[50_000, 52_000]], rebalances: [{ epoch: 4, since: 50_000, ms: 2000, trigger: "expiry" }] };

test("what stands under the cursor of the lanes", () => {
  const values = (ms, lane, near = 0) => it.lanesTip(LANES, WHOLE, ms, lane, near).map((one) => one.value);
  assert.deepEqual(values(40_000, 0).slice(0, 5), ["/h", "a1", "stable", "3", "2"]);
  assert.deepEqual(it.lanesTip(LANES, WHOLE, 40_000, 0, 0).at(-1), { name: "✕ ended", value: "1 Jan, 00:00:50: session expired", tone: "hot" });
  assert.deepEqual(values(55_000, 0), ["not in the group"]);
  // A short life is found beside the cursor as well.
  assert.equal(values(55_000, 0, 6000)[1], "a2");
  assert.equal(values(100_000, 0)[2], "waiting for partitions");
  assert.deepEqual(values(51_000, null), ["1", "expiry, 2 s"]);
  assert.deepEqual(values(60_000, null), ["none"]);
  assert.deepEqual(it.lanesTable(LANES).rows.map((row) => row.at(-1)), ["session expired", "alive"]);
});

test("who had a partition when", () => {
  const data = { ...LANES, places: [["orders", 0], ["orders", 1]], holdings: [[0, 0, 0, 50_000], [0, 1, 62_000, null]] };
  const values = (ms, row) => it.ownershipTip(data, WHOLE, ms, row).map((one) => one.value);
  assert.deepEqual(values(10_000, 0), ["", "worker", "a1", "1 Jan, 00:00:00", "50 s"]);
  assert.deepEqual(values(55_000, 0), ["read by nobody"]);
  assert.deepEqual(values(100_000, 0).slice(2), ["a2", "1 Jan, 00:01:02", "38 s and on"]);
  assert.deepEqual([values(0, 1), values(0, 2)], [["read by nobody"], []]);
  const many = { ...data, holdings: Array.from({ length: 501 }, () => data.holdings[0]) };
  assert.deepEqual([it.ownershipTable(many, WHOLE).rows.length, it.ownershipTable(many, WHOLE).more], [500, 1]);
});

test("texts below an axis are as short as its steps allow", () => {
  const at = Date.UTC(2026, 0, 11, 13, 30);
  assert.deepEqual([it.utcTick(at, 1_800_000), it.utcTick(at, 15_000)], ["13:30", "13:30:00"]);
  assert.equal(it.utcTick(Date.UTC(2026, 0, 11), 3_600_000), "11 Jan");
});
