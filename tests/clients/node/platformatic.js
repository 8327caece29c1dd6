// @platformatic/kafka: classic protocol (round-robin) and consumer protocol; no patterns.
import { Consumer } from '@platformatic/kafka'

const DRAIN_MS = 50

function places(assignments) {
  return (assignments ?? [])
    .flatMap(({ topic, partitions }) => partitions.map(partition => [topic, partition]))
    .sort((a, b) => (a[0] === b[0] ? a[1] - b[1] : a[0] < b[0] ? -1 : 1))
}

function settings(options) {
  const common = {
    clientId: `platformatic-${options.member}`,
    bootstrapBrokers: options.bootstrap.split(','),
    groupId: options.group,
    autocommit: options.commit === 'auto' ? 500 : false,
    maxWaitTime: 200,
    metadataMaxAge: 1000,
    retries: 50,
    retryDelay: 100,
  }
  if (options.instanceId !== null) {
    common.groupInstanceId = options.instanceId
  }
  if (options.protocol === 'consumer') {
    return { ...common, groupProtocol: 'consumer', groupRemoteAssignor: options.assignor || 'uniform' }
  }
  return { ...common, sessionTimeout: options.sessionTimeoutMs, rebalanceTimeout: 20_000, heartbeatInterval: 300 }
}

/** Starts one consumer; resolves to a function that lets it leave. */
export async function start(options, emit) {
  const consumer = new Consumer(settings(options))
  let leaving = false
  const failed = error => {
    // What is under way when the client closes ends with "Client is closed".
    if (!leaving) {
      emit('error', { error: String(error) })
    }
  }
  consumer.on('error', failed)
  const stream = await consumer.consume({ topics: options.topics, mode: 'committed', fallbackMode: 'earliest' })
  stream.on('error', failed)

  // Messages come one by one; what came since the last turn is one `records` event and one commit.
  let queue = []
  let owned = null
  stream.on('data', message => queue.push(message))

  async function drain() {
    const now = places(consumer.assignments)
    if (JSON.stringify(now) !== owned) {
      owned = JSON.stringify(now)
      emit('assignment', { owned: now })
    }
    const mine = new Set(now.map(String))
    const messages = queue.filter(message => mine.has(String([message.topic, message.partition])))
    queue = []
    if (messages.length === 0) {
      return
    }
    emit('records', { records: messages.map(({ topic, partition, offset }) => [topic, partition, Number(offset)]) })
    if (options.commit === 'each') {
      await commit(messages)
    }
  }

  async function commit(messages) {
    const ends = new Map()
    for (const { topic, partition, offset } of messages) {
      ends.set(String([topic, partition]), { topic, partition, offset: offset + 1n, leaderEpoch: 0 })
    }
    const offsets = [...ends.values()].map(end => [end.topic, end.partition, Number(end.offset)])
    try {
      await consumer.commit({ offsets: [...ends.values()] })
      emit('committed', { offsets })
    } catch (error) {
      emit('commit-failed', { offsets, error: String(error) })
    }
  }

  async function run() {
    while (!leaving) {
      await drain()
      await new Promise(resolve => setTimeout(resolve, DRAIN_MS))
    }
  }

  const running = run()
  return async () => {
    leaving = true
    await running
    await consumer.close(true)
  }
}
