// Serves ../built/ with invented data: `npm run dev`, then http://127.0.0.1:8080. GROUP_COUNT is the number of groups, TOKEN asks
// for a token, PORT is another port.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { FakeGroup, health, random, row, rows } from "./fake.mjs";

const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { js: "text/javascript", css: "text/css", html: "text/html", txt: "text/plain" };
const token = process.env.TOKEN ?? "";
const port = Number(process.env.PORT ?? 8080);
const listed = rows(Number(process.env.GROUP_COUNT ?? 40));
const groups = new Map();
const started = Date.now();
const LACKS = { more: false, missing: null, other_nodes: [] };

function groupOf(name) {
  if (!groups.has(name)) groups.set(name, new FakeGroup(name));
  return groups.get(name);
}

function json(reply, value, code = 200) {
  reply.writeHead(code, { "Content-Type": "application/json", "Cache-Control": "no-store" });
  reply.end(JSON.stringify(value));
}

function text(reply, code, words) {
  reply.writeHead(code, { "Content-Type": "text/plain" });
  reply.end(`${words}\n`);
}

// Making the snapshot of a large group takes longer than showing it: the first one is made once.
const first = new Map();
function firstOf(group) {
  if (!first.has(group.name)) first.set(group.name, `event: snapshot\ndata: ${JSON.stringify(group.snapshot())}\n\n`);
  return first.get(group.name);
}

function stream(request, reply, every, step) {
  reply.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  const say = (name, data) => reply.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  step(say, true);
  const timer = setInterval(() => step(say, false), every);
  request.on("close", () => clearInterval(timer));
}

function live(request, reply, path) {
  let version = 1;
  if (path[1] === "groups" && path.length === 2)
    stream(request, reply, 1000, (say, first) => {
      if (first) return say("snapshot", { version, now_ms: Date.now(), node: { id: 0 }, rows: listed, ...LACKS });
      const changed = Array.from({ length: Math.max(1, listed.length / 50) }, () => Math.floor(random() * listed.length));
      for (const at of changed) {
        const { judgement } = listed[at];
        listed[at] = { ...row(listed[at].group_id, 99), judgement };
      }
      say("changes", { version: ++version, now_ms: Date.now(), rows: changed.map((at) => listed[at]), gone: [], ...LACKS });
    });
  else if (path[1] === "groups") {
    const group = groupOf(path[2]);
    if (path[2] === "missing") return text(reply, 404, `no group ${path[2]}`);
    const large = group.places.length > 5000;
    stream(request, reply, large ? 5000 : 1000, (say, isFirst) => {
      if (large && isFirst) return reply.write(firstOf(group));
      group.tick();
      say("snapshot", group.snapshot());
    });
  } else stream(request, reply, 2000, (say) => say("snapshot", health(started)));
}

function asked(request, reply, path, query) {
  const group = groupOf(path[1]);
  if (path.length === 2) return json(reply, group.group());
  if (path[2] === "what-if") {
    const assignor = query.get("assignor");
    return json(reply, assignor === null ? { assignors: ["uniform", "range", "roundrobin", "sticky"], used: group.classic ? null : "uniform" } : group.whatIf(assignor));
  }
  if (path[2] === "moves") return json(reply, group.moves());
  if (request.method !== "POST") return json(reply, group.offsets());
  let body = "";
  request.on("data", (piece) => (body += piece));
  request.on("end", () => {
    const wanted = JSON.parse(body);
    if (wanted.apply && group.members.length > 0) text(reply, 409, `group ${group.name} has ${group.members.length} members: stop them first`);
    else json(reply, group.move(wanted));
  });
}

createServer(async (request, reply) => {
  const url = new URL(request.url, "http://localhost");
  const path = url.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  if (path.length === 0 || path[0] === "console") {
    const file = path[1] ?? "index.html";
    const content = await readFile(new URL(`../../built/${file.replaceAll("/", "")}`, import.meta.url)).catch(() => null);
    if (content === null) return text(reply, 404, "not found");
    reply.writeHead(200, { "Content-Type": TYPES[file.split(".").pop()] ?? "text/plain", "Content-Security-Policy": CSP });
    return reply.end(content);
  }
  if (token !== "" && request.headers.authorization !== `Bearer ${token}`) return text(reply, 401, "credentials are missing");
  if (path[0] === "live") return live(request, reply, path);
  return path[0] === "groups" && path.length > 1 ? asked(request, reply, path, url.searchParams) : text(reply, 404, "not found");
}).listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}`));
