// A broker for one test, in memory, on ports of its own: starts groupd, and moves its time, its groups and its faults
// over its control API (docs/testing.md of groupd, "Any language"). Copy it as it is.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

const READY = /^groupd ready kafka=(\S+) admin=(\S+)$/
const PATIENCE_S = 30

export class Groupd {
  #process
  #url

  /** Needs groupd on PATH. `topics`: { orders: 6 }. It ends with this process, however that ends. */
  static async start(topics = {}) {
    const flags = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--log-level', 'error']
    for (const [name, partitions] of Object.entries(topics)) {
      flags.push('--topic', `${name}:${partitions}`)
    }
    const child = spawn('groupd', ['serve', '--control', '--profile', 'test', '--until-stdin-ends', ...flags])
    let errors = ''
    child.stderr.on('data', data => (errors += data))
    try {
      await once(child, 'spawn')
    } catch (error) {
      throw new Error(
        'groupd is not on PATH: install it (pip install) and put its environment\'s bin directory there',
        { cause: error },
      )
    }
    const watchdog = setTimeout(() => child.kill('SIGKILL'), PATIENCE_S * 1000)
    try {
      for await (const line of createInterface({ input: child.stdout })) {
        const found = READY.exec(line)
        if (found !== null) {
          return new Groupd(child, found[1], `http://${found[2]}`)
        }
      }
    } finally {
      clearTimeout(watchdog)
    }
    throw new Error(`groupd did not start: ${errors}`)
  }

  constructor(child, servers, url) {
    this.#process = child
    this.#url = url
    this.servers = servers
  }

  /** Stops it. Throws if the coordinator broke one of its invariants. */
  async stop() {
    try {
      const verdict = await this.get('/control/check')
      if (!verdict.ok) {
        throw new Error(`broken invariants: ${verdict.violations}`)
      }
    } finally {
      const watchdog = setTimeout(() => this.#process.kill('SIGKILL'), PATIENCE_S * 1000)
      const ended = once(this.#process, 'close')
      this.#process.stdin.end()
      await ended
      clearTimeout(watchdog)
    }
  }

  /** `records`: texts, or objects with `value`, and `key` and `partition` if they matter. */
  async produce(topic, records) {
    await this.post(`/control/topics/${encodeURIComponent(topic)}/records`, { records })
  }

  /** What a consumer with read_committed gets of a topic: at most 10,000; `isolation=read_uncommitted` gives all. */
  async records(topic) {
    return (await this.get(`/control/topics/${encodeURIComponent(topic)}/records?limit=10000`)).records
  }

  /** Stops the coordinator's time; from then on only `advance` moves it. */
  async freeze() {
    await this.post('/control/clock', { mode: 'frozen' })
  }

  /** Lets time pass at once. */
  async advance(ms) {
    await this.post('/control/clock/advance', { ms })
  }

  /** Until 'stable', 'members', 'owned', 'released', 'committed', 'lag' and so on; `given`: what that needs. */
  async wait(group, until, given = {}) {
    const body = { timeout: PATIENCE_S, ...given, until }
    return (await this.post(`/control/groups/${encodeURIComponent(group)}/wait`, body)).result
  }

  /** The group's offsets: { 'orders-0': 5 }. */
  async committed(group) {
    const found = await this.get(`/control/groups/${encodeURIComponent(group)}/offsets`)
    return Object.fromEntries(found.map(({ topic, partition, offset }) => [`${topic}-${partition}`, offset]))
  }

  /** Makes the coordinator misbehave: { action: 'error', api: 'OffsetCommit', code: ... }. */
  async fault(given) {
    return new Fault(this, (await this.post('/control/faults', given)).id)
  }

  /** Sets an incident up: 'zombie_member', 'coordinator_failover' and so on. */
  async recipe(name, given) {
    return this.#faults(await this.post(`/control/recipes/${name}`, given))
  }

  /**
   * So many requests of the group are answered with NOT_COORDINATOR, and as many searches for the coordinator with
   * COORDINATOR_NOT_AVAILABLE.
   */
  async moveCoordinator(group, count) {
    return this.#faults(await this.post('/control/coordinator/move', { group, count }))
  }

  #faults({ faults }) {
    return faults.map(number => new Fault(this, number))
  }

  /** Asks for a path of the control API. */
  async get(path) {
    return this.#ask(path, {})
  }

  /** Calls a path of the control API. */
  async post(path, body = {}) {
    const headers = { 'Content-Type': 'application/json' }
    return this.#ask(path, { method: 'POST', headers, body: JSON.stringify(body) })
  }

  async #ask(path, options) {
    const reply = await fetch(this.#url + path, { ...options, signal: AbortSignal.timeout(2 * PATIENCE_S * 1000) })
    const text = await reply.text()
    if (!reply.ok) {
      throw new Error(`${path}: ${text}`)
    }
    return JSON.parse(text)
  }
}

/** A fault that was added. */
class Fault {
  #groupd
  #path

  constructor(groupd, number) {
    this.#groupd = groupd
    this.#path = `/control/faults/${number}`
  }

  /** Until it was hit so often. */
  async wait(hits = 1) {
    await this.#groupd.post(`${this.#path}/wait`, { hits, timeout: PATIENCE_S })
  }

  /** How many requests it took. */
  async hits() {
    return (await this.#groupd.get(this.#path)).hits
  }

  /** Lets go what it holds, and ends it. */
  async release() {
    await this.#groupd.post(`${this.#path}/release`)
  }
}
