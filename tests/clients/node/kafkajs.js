// kafkajs: classic protocol, round-robin only, no static members, patterns resolved at subscription.
import { readFileSync } from 'node:fs'
import kafkajs from 'kafkajs'

const { Kafka, logLevel } = kafkajs

function places(assignment) {
  return Object.keys(assignment)
    .sort()
    .flatMap(topic => [...assignment[topic]].sort((a, b) => a - b).map(partition => [topic, partition]))
}

/** The settings for `login`, a Login of groupd.testing.security. */
function security(login) {
  if (login === null) {
    return {}
  }
  const file = path => (path === null ? undefined : readFileSync(path, 'utf8'))
  const made = { ssl: { ca: file(login.ca_file), cert: file(login.cert_file), key: file(login.key_file) } }
  if (login.mechanism === 'OAUTHBEARER') {
    made.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: login.token }) }
  } else if (login.mechanism !== null) {
    made.sasl = { mechanism: login.mechanism.toLowerCase(), username: login.user, password: login.password }
  }
  return made
}

/** Starts one consumer; resolves to a function that lets it leave. */
export async function start(options, emit) {
  const kafka = new Kafka({
    brokers: options.bootstrap.split(','),
    clientId: `kafkajs-${options.member}`,
    logLevel: logLevel.NOTHING,
    ...security(options.login),
    retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 50 },
  })
  const consumer = kafka.consumer({
    groupId: options.group,
    sessionTimeout: options.sessionTimeoutMs,
    heartbeatInterval: 300,
    maxWaitTimeInMs: 200,
    metadataMaxAge: 1000,
    allowAutoTopicCreation: false,
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    emit('assigned', { partitions: places(payload.memberAssignment) })
    emit('assignment', { owned: places(payload.memberAssignment) })
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => emit('error', { error: String(payload.error) }))
  await consumer.connect()
  const topics = options.pattern === '' ? options.topics : [new RegExp(options.pattern)]
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({
    autoCommit: options.commit === 'auto',
    autoCommitInterval: 500,
    partitionsConsumedConcurrently: 4,
    eachBatch: async ({ batch, resolveOffset }) => {
      emit('records', {
        records: batch.messages.map(message => [batch.topic, batch.partition, Number(message.offset)]),
      })
      resolveOffset(batch.lastOffset())
      if (options.commit === 'each') {
        await commit(batch.topic, batch.partition, Number(batch.lastOffset()) + 1)
      }
    },
  })

  async function commit(topic, partition, offset) {
    const offsets = [[topic, partition, offset]]
    try {
      await consumer.commitOffsets([{ topic, partition, offset: String(offset) }])
    } catch (error) {
      emit('commit-failed', { offsets, error: String(error) })
      throw error // kafkajs rejoins and fetches from the commits
    }
    emit('committed', { offsets })
  }

  return () => consumer.disconnect()
}
