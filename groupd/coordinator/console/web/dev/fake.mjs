// A daemon's answers, invented: for work on the pages without a daemon. Groups `huge` and `large` are as large as their names.
const JUDGEMENTS = ["ok", "ok", "ok", "ok", "ok", "behind", "stalled", "stopped", "rewound", null];
const CAUSES = ["member joined", "member left: the consumer unsubscribed", "no heartbeat within the session timeout", "topic metadata changed"];
const SIZES = { huge: [10_000, 20_000], large: [300, 900], wide: [4, 64], lonely: [0, 6] };
const MINUTE = 60_000;

let seed = 7;
export function random() {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return seed / 2_147_483_648;
}
const pick = (list) => list[Math.floor(random() * list.length)];

export function row(name, number) {
  const judgement = number < 8 ? JUDGEMENTS[number + 1] : pick(JUDGEMENTS);
  const type = pick(["consumer", "consumer", "consumer", "classic", "share"]);
  const lag = judgement === null ? null : judgement === "ok" ? Math.floor(random() * 40) : Math.floor(random() ** 3 * 4e6) + 100;
  const trend = lag === null || lag < 5 ? null : Array.from({ length: 30 }, (_, at) => (at < 3 ? null : Math.floor(lag * (0.4 + (at / 50) + random() * 0.2))));
  return {
    group_id: name,
    type,
    state: pick(["Stable", "Stable", "Stable", "Stable", "Empty", type === "classic" ? "PreparingRebalance" : "Reconciling"]),
    members: Math.floor(random() ** 2 * 40),
    lag,
    lag_seconds: lag === null ? null : lag / (50 + random() * 400),
    judgement,
    last_rebalance: random() < 0.1 ? null : { timestamp_ms: Date.now() - Math.floor(random() * 6 * 3600) * 1000, cause: `member worker-${number % 20} ${pick(CAUSES)}` },
    trend,
  };
}

export function rows(many) {
  const named = ["billing", "huge", "large", "wide", "lonely", "team/a group with spaces", "old-classic", `long-${"name-".repeat(24)}`];
  const names = [...named, ...Array.from({ length: Math.max(0, many - named.length) }, (_, at) => `${pick(["orders", "payments", "search-index", "audit", "mail"])}-${pick(["eu", "us", "ap"])}-${at}`)];
  return names.map(row);
}

// Moves one partition of a group every few calls, by way of a revocation.
export class FakeGroup {
  constructor(name) {
    this.name = name;
    this.classic = name === "old-classic";
    const [members, partitions] = SIZES[name] ?? [3, 12];
    const topics = name === "huge" ? 4 : name === "wide" ? 1 : 2;
    this.places = Array.from({ length: partitions }, (_, at) => ({ topic: `${["orders", "payments", "refunds", "events"][at % topics]}`, partition: Math.floor(at / topics) }));
    this.members = Array.from({ length: members }, (_, at) => ({ id: `${this.hash(at)}${at}`, client: `${name === "billing" ? "billing" : "worker"}-${name === "large" ? at % 40 : at + 1}` }));
    this.owner = this.places.map((_, at) => (members === 0 ? null : at % members));
    this.revoking = null;
    this.version = 1;
    this.epoch = 12;
    this.ticks = 0;
    this.rebalances = Array.from({ length: 23 }, (_, at) => this.rebalance(Date.now() - (at * 13 + 2) * MINUTE, this.epoch - at));
  }

  hash(at) {
    return ((at * 2_654_435_761) >>> 0).toString(36).padStart(7, "0") + "QxT=";
  }

  rebalance(started, epoch, ended = started + 800 + Math.floor(random() * 30_000)) {
    const who = this.members[epoch % Math.max(1, this.members.length)] ?? { id: "gone", client: "gone" };
    const step = (after, kind, text) => ({ timestamp_ms: started + after, kind, member_id: who.id, client_id: who.client, text });
    return {
      started_ms: started, ended_ms: ended, cause: `member ${who.client} ${pick(CAUSES)}`, epoch, moved_partitions: 1 + Math.floor(random() * 6),
      sentence: `${who.client} joined; the uniform assignor gave it 4 partitions, for which it waited 1.2 s.`,
      steps: [step(0, "member-joined", "joined (new member)"), step(0, "group-epoch-bumped", `raised the group epoch to ${epoch}`), step(26, "target-installed", "target computed by uniform: 2 members have another one"), step(410, "partitions-revoking", "is to revoke orders-3 within 5 min"), step(1240, "member-epoch-advanced", "reached the epoch: nothing is left to revoke")],
    };
  }

  tick() {
    this.version++;
    this.ticks++;
    if (this.members.length < 2) return;
    const phase = this.ticks % 12;
    if (phase === 4) {
      const at = Math.floor(random() * this.places.length);
      const from = this.owner[at];
      this.revoking = { at, from, to: (from + 1 + Math.floor(random() * (this.members.length - 1))) % this.members.length, since: Date.now() };
      this.epoch++;
      this.rebalances.unshift(this.rebalance(Date.now(), this.epoch, null));
    } else if (phase === 10 && this.revoking !== null) {
      this.owner[this.revoking.at] = this.revoking.to;
      this.revoking = null;
      this.rebalances[0].ended_ms = Date.now();
    }
  }

  group() {
    const places = new Map(this.members.map((one) => [one.id, { owned: {}, revoked: {}, target: {} }]));
    const put = (into, at) => (into[this.places[at].topic] ??= []).push(this.places[at].partition);
    this.owner.forEach((owner, at) => {
      if (owner === null) return;
      const mine = places.get(this.members[owner].id);
      if (this.revoking?.at === at) {
        put(mine.revoked, at);
        put(places.get(this.members[this.revoking.to].id).target, at);
      } else {
        put(mine.owned, at);
        put(mine.target, at);
      }
    });
    const moving = this.revoking;
    const stateOf = (at) => (moving?.from === at ? "UNREVOKED_PARTITIONS" : moving?.to === at ? "UNRELEASED_PARTITIONS" : "STABLE");
    const members = this.members.map((one, at) => ({
      member_id: one.id, instance_id: null, rack_id: null, client_id: one.client, client_host: `/10.0.${at % 200}.${at % 250}`, protocol: this.classic ? "classic" : "consumer",
      ...(this.classic ? { join_parked: moving !== null && at !== 0, sync_parked: false } : { state: stateOf(at), member_epoch: moving?.from === at ? this.epoch - 1 : this.epoch, pending_revocation: places.get(one.id).revoked, target: places.get(one.id).target }),
      owned: places.get(one.id).owned,
    }));
    const left = moving === null ? 0 : Math.max(0, 300_000 - (Date.now() - moving.since));
    const blocked = moving === null ? [] : [
      { member_id: this.members[moving.to].id, ...this.places[moving.at], held_by: this.members[moving.from].id, revoking: true, why: `waits for ${this.places[moving.at].topic}-${this.places[moving.at].partition}: it was told to revoke it and has not confirmed`, in_ms: left },
      { member_id: "", why: "waits for the assignment interval before the next target", in_ms: 800 },
    ];
    const deadlines = [
      ...(moving === null ? [] : [{ kind: "consumer-rebalance", member_id: this.members[moving.from].id, in_ms: left }]),
      ...this.members.slice(0, 1000).map((one, at) => ({ kind: this.classic ? "classic-session" : "consumer-session", member_id: one.id, in_ms: 31_000 + at * 7 })),
    ];
    const epochs = this.classic ? { generation: this.epoch, protocol_type: "consumer", protocol_name: "range", leader: this.members[0]?.id ?? null, waiting_for: moving === null ? [] : [this.members[0].id] } : { group_epoch: this.epoch, assignment_epoch: this.epoch };
    return { group_id: this.name, type: this.classic ? "classic" : "consumer", state: this.members.length === 0 ? "Empty" : moving === null ? "Stable" : this.classic ? "PreparingRebalance" : "Reconciling", ...epochs, members, blocked, deadlines, config_overrides: {} };
  }

  offsets() {
    const now = Date.now();
    const partitions = this.places.map((one, at) => {
      const owner = this.owner[at] === null ? null : this.members[this.owner[at]];
      const lag = at % 5 === 2 ? 200 + at * 31 + this.ticks * 13 : at % 3;
      const end = 1_000_000 + at * 1017 + this.ticks * 13;
      return { ...one, committed_offset: end - lag, end_offset: end, lag, lag_seconds: lag / 40, judgement: at % 5 === 2 ? (at % 2 === 0 ? "behind" : "stalled") : "ok", last_commit_ms: now - (at % 5 === 2 ? 97_000 : 3000), member_id: owner?.id ?? null, client_id: owner?.client ?? null, client_host: owner === null ? null : "/10.0.0.1", in_transaction: at === 7 };
    });
    const members = this.members.map((one, at) => ({ member_id: one.id, lag: at * 211, last_commit_ms: now - (at % 3 === 1 ? 97_000 : 2000) }));
    return { group_id: this.name, now_ms: now, partitions, members };
  }

  snapshot() {
    const offsets = this.offsets();
    const times = Array.from({ length: 180 }, (_, at) => Date.now() - (180 - at) * 20_000);
    const wave = (size, phase) => times.map((_, at) => (at < 6 ? null : Math.max(0, Math.floor(size * (1 + Math.sin(at / 17 + phase) * 0.6 + at / 240)))));
    const largest = [...offsets.partitions].sort((a, b) => b.lag - a.lag).slice(0, this.name === "lonely" ? 3 : 50).map((one, at) => ({ topic: one.topic, partition: one.partition, lag: wave(one.lag / 2 + 3, at) }));
    return {
      version: this.version, group: this.group(), offsets, rebalances: this.rebalances,
      lag: { now_ms: Date.now(), lag: offsets.partitions.reduce((sum, one) => sum + one.lag, 0), lag_seconds: Math.max(...offsets.partitions.map((one) => one.lag_seconds)), judgement: "behind", reason: "2 of 12 partitions are behind: the lag of orders-2 has grown in 10 of the last 12 rounds", silent: [], silent_count: 0, history: { times_ms: times, total: largest[0].lag.map((_, at) => (largest[0].lag[at] === null ? null : largest.reduce((sum, one) => sum + one.lag[at], 0))), partitions: largest, left_out: offsets.partitions.length - largest.length } },
      configs: [["consumer.session.timeout.ms", 45_000, "the group's own setting"], ["consumer.heartbeat.interval.ms", 5000, "groupd.toml"], ["group.consumer.assignors", "uniform,range", "default"], ["group.consumer.max.size", 2_147_483_647, "default"], ["offsets.retention.minutes", 10_080, "default"]].map(([name, value, source]) => ({ name, value, source })),
    };
  }

  whatIf(assignor) {
    const current = Object.fromEntries(this.members.map((one) => [one.id, 0]));
    const proposed = { ...current };
    const moves = [];
    this.places.forEach((one, at) => {
      const now = this.owner[at] === null ? null : this.members[this.owner[at]].id;
      const then = this.members.length === 0 ? null : this.members[assignor === "range" ? Math.floor((at * this.members.length) / this.places.length) : at % this.members.length].id;
      if (now !== null) current[now]++;
      if (then !== null) proposed[then]++;
      if (now !== then) moves.push({ ...one, from: now, to: then });
    });
    const balance = (counts) => {
      const values = Object.values(counts);
      if (values.length === 0) return { least: 0, most: 0, deviation: 0 };
      const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
      return { least: Math.min(...values), most: Math.max(...values), deviation: Math.sqrt(values.reduce((sum, one) => sum + (one - mean) ** 2, 0) / values.length) };
    };
    const compared = this.classic ? `Now: assigned by its members with range. Compared with the assignor ${assignor} of the consumer protocol (group.protocol=consumer).` : `Now: the group's target. Compared with the assignor ${assignor}.`;
    return { assignor, compared, moves, moved: moves.length, current, proposed, target: {}, balance: { current: balance(current), proposed: balance(proposed) } };
  }

  move(body) {
    if (body.apply) return { written: Object.values(body.apply).flat().length };
    const named = body.partitions ?? null;
    const rows = this.offsets().partitions.filter((one) => named === null || (named[one.topic] ?? []).includes(one.partition)).map((one, at) => {
      const to = body.to === "latest" ? one.end_offset : body.to === "shift" ? Math.max(0, one.committed_offset + body.value) : body.to === "offset" ? body.value : 0;
      return { topic: one.topic, partition: one.partition, from: one.committed_offset, to, action: to === one.committed_offset ? "keep" : "commit", records: to - one.committed_offset, warning: at === 3 ? "the log begins at 120: set to that" : null, writes: to !== one.committed_offset, starts_anew: false };
    });
    const refusal = this.members.length > 0 ? `group ${this.name} has ${this.members.length} members` : "";
    return { rows, refusal };
  }

  moves() {
    const moves = Array.from({ length: 200 }, (_, at) => ({ timestamp_ms: Date.now() - at * 5000, ...this.places[at % this.places.length], kind: at % 13 === 0 ? "back" : "forward", from: at === 9 ? null : 1000 + at, to: at % 13 === 0 ? 900 : 1080 + at, by: at % 13 === 0 ? "admin/simple" : "owner 3kAop8gl client=billing-1/10.0.0.7 epoch=3" }));
    return { group_id: this.name, complete: true, moves };
  }
}

export function health(started) {
  return {
    now_ms: Date.now(), not_ready: "shard 7 is loading", uptime_s: (Date.now() - started) / 1000 + 183_000, version: "0.1.0", store: "postgresql+asyncpg", shards: { active: 49, loading: 1, failed: 0 },
    loop: { longest_ms_last_minute: 8.2, delays: 14, stalls: 0 }, writer: { waiting: 3, flush_ms: { p50: 1.4, p99: 9.7, max: 22 } }, connections: { open: 412, allowed: 10_000 },
    limits: [{ name: "memory of requests", used: 31e6, most: 134e6 }, { name: "topics", used: 840, most: 1000 }, { name: "partitions", used: 6100, most: 10_000 }, { name: "connections", used: 412, most: 10_000 }, { name: "groups of the timeline", used: 1999, most: 2000 }],
    refusals: [{ what: "connections beyond the limit", count: 3 }, { what: "failed logins", count: 1 }],
    nodes: [0, 1, 2].map((node) => ({ node, state: node === 2 ? "draining" : "serving", address: `10.0.0.${node + 1}:9092`, admin: `http://10.0.0.${node + 1}:9644`, units: { shards: 16 + node, partitions: 210, transactions: 16 }, rack: `r${node}`, version: "0.1.0", lease_left_ms: 8200 - node * 900 })),
  };
}
