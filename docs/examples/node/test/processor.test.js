// On good days and on bad ones. The coordinator's time stands still unless a test moves it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Processor } from '../src/processor.js'
import { Groupd } from './groupd.js'

const MAIN = fileURLToPath(new URL('../src/main.js', import.meta.url))
const PARTITIONS = 6
const SESSION_MS = 45_000
const TOPICS = { orders: PARTITIONS, invoices: 1, 'orders-rejected': 1 }

/** A test with a broker, and with what it starts ended in the end. */
function scenario(name, run) {
  test(name, { timeout: 60_000 }, async () => {
    const groupd = await Groupd.start(TOPICS)
    const endings = []
    try {
      await groupd.freeze()
      await run(new World(groupd, endings))
      while (endings.length > 0) {
        await endings.pop()()
      }
    } finally {
      await Promise.allSettled(endings.map(end => end()))
      await groupd.stop()
    }
  })
}

class World {
  #endings

  constructor(groupd, endings) {
    this.groupd = groupd
    this.#endings = endings
  }

  /** A processor in this process. `charged`: how often each order was. */
  async work(onCharge = async () => {}) {
    const charged = new Map()
    const charge = async order => {
      charged.set(order.id, (charged.get(order.id) ?? 0) + 1)
      await onCharge()
    }
    const errors = []
    const crashed = error => errors.push(error)
    const processor = new Processor(this.groupd.servers, charge, { heartbeatMs: 50, crashed })
    this.#endings.push(async () => {
      await processor.stop()
      assert.deepEqual(errors, [])
    })
    await processor.start()
    return { processor, charged }
  }

  /** The program as a process of its own. */
  startProcess() {
    const child = spawn(process.execPath, [MAIN, this.groupd.servers], { stdio: 'ignore' })
    const ended = once(child, 'exit')
    const kill = async () => {
      child.kill('SIGKILL')
      await ended
    }
    this.#endings.push(kill)
    return { kill }
  }

  async produce(from, to) {
    const records = []
    for (let number = from; number < to; number++) {
      records.push({ value: `{"id": "order-${number}", "cents": 100}`, partition: number % PARTITIONS })
    }
    await this.groupd.produce('orders', records)
  }

  /** Until so many orders of each partition are committed. */
  async waitCommitted(each) {
    for (let partition = 0; partition < PARTITIONS; partition++) {
      await this.groupd.wait('billing', 'committed', { topic: 'orders', partition, offset: each })
    }
  }

  async waitMembers(count) {
    return this.groupd.wait('billing', 'members', { count })
  }

  async waitStable(members) {
    return (await this.groupd.wait('billing', 'stable', { members })).members
  }

  /** How often each order was. */
  async billed() {
    const found = new Map()
    for (const { key } of await this.groupd.records('invoices')) {
      found.set(key, (found.get(key) ?? 0) + 1)
    }
    return found
  }
}

function assertOnce(found, orders) {
  assert.equal(found.size, orders)
  assert.deepEqual([...found].filter(([, times]) => times !== 1), [])
}

function latch() {
  let open
  const opened = new Promise(resolve => (open = resolve))
  return { open, opened }
}

scenario('orders are billed and committed', async world => {
  await world.produce(0, 60)
  await world.work()
  await world.waitCommitted(10)
  assertOnce(await world.billed(), 60)
})

scenario('a bad order does not hold up the others', async world => {
  const good = '{"id": "order-8", "cents": 100}'
  await world.groupd.produce('orders', [{ value: '{"id": "order-7"}', partition: 0 }, { value: good, partition: 0 }])
  await world.work()
  await world.groupd.wait('billing', 'committed', { topic: 'orders', partition: 0, offset: 2 })
  assertOnce(await world.billed(), 1)
  const [{ key, value }] = await world.groupd.records('orders-rejected')
  assert.deepEqual([key, value], ['orders-0@0', 'no positive number of cents'])
})

scenario('a crash before the commit loses no order', async world => {
  await world.produce(0, 60)
  const commit = await world.groupd.fault({ action: 'hold', api: 'OffsetCommit', group: 'billing', count: 1 })
  const victim = world.startProcess()
  await commit.wait() // billed; the commit dies with it
  await victim.kill()
  assert.deepEqual(await world.groupd.committed('billing'), {})
  const before = await world.billed()
  assert.notEqual(before.size, 0)
  const heir = world.work() // it waits for the dead one
  await world.waitMembers(2)
  await world.groupd.advance(SESSION_MS) // the session of the dead one ends
  await heir
  await world.waitCommitted(10)
  const after = await world.billed()
  assert.equal(after.size, 60)
  for (const [order, times] of after) {
    assert.equal(times, 1 + (before.get(order) ?? 0), order)
  }
})

scenario('partitions of a killed process move', async world => {
  const survivor = await world.work()
  const [stays] = await world.waitMembers(1)
  const victim = world.startProcess()
  await world.waitMembers(2)
  await world.waitStable(2)
  await victim.kill()
  await world.groupd.advance(SESSION_MS)
  const [left] = await world.waitStable(1)
  assert.deepEqual([left.member_id, left.owned.orders.length], [stays, PARTITIONS])
  await world.produce(0, 12)
  await world.waitCommitted(2)
  assertOnce(survivor.charged, 12)
})

scenario('no order is done twice in a rebalance', async world => {
  await world.produce(0, 60)
  const busy = latch()
  const goOn = latch()
  const first = await world.work(async () => {
    busy.open()
    await goOn.opened
  })
  await busy.opened
  const joining = world.work()
  await world.waitMembers(2)
  assert.deepEqual(await world.groupd.committed('billing'), {})
  goOn.open()
  const second = await joining
  await world.waitStable(2)
  await world.produce(60, 120)
  await world.waitCommitted(20)
  assertOnce(first.charged, first.charged.size)
  assert.notEqual(first.charged.size, 0)
  assert.notEqual(second.charged.size, 0)
  assertOnce(await world.billed(), 120)
  assert.deepEqual([...first.charged.keys()].filter(order => second.charged.has(order)), [])
})

scenario('a zombie commits nothing', async world => {
  const hung = latch()
  const goOn = latch()
  const zombie = await world.work(async () => {
    hung.open()
    await goOn.opened
  })
  const [member] = await world.waitMembers(1)
  await world.produce(0, 60)
  await hung.opened // in the middle of an order, for longer than its session
  const [held] = await world.groupd.recipe('zombie_member', { group: 'billing', member })
  await world.waitMembers(0)
  await world.work()
  await world.waitCommitted(10) // by the other one
  goOn.open()
  await held.wait() // it still believes to have its partitions
  await held.release() // what it says comes too late
  await world.waitStable(2)
  assert.ok(zombie.processor.refused >= 1)
  assert.equal((await world.billed()).size, 60)
})

for (const applied of [true, false]) {
  scenario(`the coordinator dies in the middle of a commit, applied: ${applied}`, async world => {
    const [dies] = await world.groupd.recipe('coordinator_failover', { group: 'billing', applied })
    await world.produce(0, 60)
    await world.work()
    await world.waitCommitted(10)
    assert.equal(await dies.hits(), 1)
    assert.equal((await world.billed()).size, 60)
  })
}

scenario('the coordinator moves', async world => {
  await world.work()
  await world.waitStable(1)
  const [moved] = await world.groupd.moveCoordinator('billing', 2)
  await world.produce(0, 60)
  await world.waitCommitted(10)
  await moved.wait(2)
  assert.equal((await world.billed()).size, 60)
})

// What kafkajs does about single faults.
for (const fault of [
  { action: 'error', api: 'OffsetCommit', code: 'COORDINATOR_LOAD_IN_PROGRESS' },
  { action: 'close', api: 'OffsetCommit' },
  { action: 'close', api: 'heartbeat' },
  { action: 'error', api: 'FindCoordinator', code: 'COORDINATOR_NOT_AVAILABLE' },
]) {
  scenario(`the client gets over ${Object.values(fault).join(' ')}`, async world => {
    const added = await world.groupd.fault({ ...fault, count: 2 })
    await world.produce(0, 60)
    await world.work()
    await world.waitCommitted(10)
    await added.wait(2)
    assert.equal((await world.billed()).size, 60)
  })
}
