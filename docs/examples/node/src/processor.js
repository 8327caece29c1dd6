// Bills orders: reads them from Kafka, charges, and writes invoices to a topic. Every order is billed at least
// once, and a second time does no harm:
//
// - An offset is committed only when the invoices before it are in the topic.
// - kafkajs rebalances between batches. A batch that learns of a rebalance ends early, with what was done written
//   and committed, so that whoever gets the partition starts where this instance ended.
// - An invoice has the order's id as its key and always the same content: whoever reads it knows an order that was
//   billed again after a crash.
import kafkajs from 'kafkajs'
import { BadOrder, parse } from './order.js'

const { Kafka, Partitioners, logLevel } = kafkajs

const GROUP = 'billing'
const ORDERS = 'orders'
const INVOICES = 'invoices'
const REJECTED = 'orders-rejected'

// Somebody else has the partitions, and does the orders again.
const FENCED = new Set(['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'FENCED_INSTANCE_ID'])

export class Processor {
  #charge
  #consumer
  #producer

  /** How many commits came too late. */
  refused = 0

  /**
   * `charge` takes the money for one order. It may be called again for an order whose charge succeeded just before
   * a crash, so it passes the order's id on as its idempotency key. `crashed` is called when kafkajs gives up.
   */
  constructor(servers, charge, { heartbeatMs = 3000, crashed = () => {} } = {}) {
    this.#charge = charge
    const kafka = new Kafka({
      brokers: [servers],
      clientId: 'billing',
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 20 },
    })
    this.#producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
    this.#consumer = kafka.consumer({
      groupId: GROUP,
      sessionTimeout: 45_000,
      heartbeatInterval: heartbeatMs,
      maxWaitTimeInMs: 200,
    })
    this.#consumer.on(this.#consumer.events.CRASH, ({ payload }) => {
      if (!payload.restart) {
        crashed(payload.error)
      }
    })
  }

  async start() {
    await this.#producer.connect()
    await this.#consumer.connect()
    await this.#consumer.subscribe({ topics: [ORDERS], fromBeginning: true })
    await this.#consumer.run({ autoCommit: false, eachBatch: batch => this.#bill(batch) })
  }

  /** Finishes the order in hand, commits and leaves the group. */
  async stop() {
    await this.#consumer.disconnect()
    await this.#producer.disconnect()
  }

  async #bill({ batch, heartbeat, isRunning, isStale }) {
    const { topic, partition } = batch
    const invoices = []
    const rejected = []
    let next = null
    let rebalance = null
    for (const message of batch.messages) {
      if (!isRunning() || isStale()) {
        break
      }
      try {
        const order = parse(message.value?.toString())
        await this.#charge(order)
        invoices.push({ key: order.id, value: JSON.stringify(order) })
      } catch (error) {
        if (!(error instanceof BadOrder)) {
          throw error
        }
        rejected.push({ key: `${topic}-${partition}@${message.offset}`, value: error.message })
      }
      next = (BigInt(message.offset) + 1n).toString()
      try {
        await heartbeat()
      } catch (error) {
        rebalance = error
        break
      }
    }
    if (next !== null) {
      const written = [{ topic: INVOICES, messages: invoices }, { topic: REJECTED, messages: rejected }]
      await this.#producer.sendBatch({ topicMessages: written.filter(({ messages }) => messages.length > 0) })
      await this.#commit({ topic, partition, offset: next })
    }
    if (rebalance !== null) {
      throw rebalance // kafkajs joins again
    }
  }

  async #commit(offset) {
    try {
      await this.#consumer.commitOffsets([offset])
    } catch (error) {
      const refusal = error.cause ?? error // kafkajs wraps it, and would not know it again
      if (FENCED.has(refusal.type)) {
        this.refused += 1
      }
      throw refusal // kafkajs joins again, and fetches from what is committed
    }
  }
}
