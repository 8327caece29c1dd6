// Runs members of a group and tells on stdout what happens to them. The command line, the events and the
// commands on stdin are those of tests/clients/drivers/driver.py, after the name of the client: kafkajs
// or platformatic.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'

const CLIENTS = ['kafkajs', 'platformatic']

const client = process.argv[2]
if (!CLIENTS.includes(client)) {
  console.error('usage: driver.js kafkajs|platformatic --bootstrap HOST:PORT --group ID ...')
  process.exit(2)
}

const text = fallback => ({ type: 'string', default: fallback })
const { values } = parseArgs({
  args: process.argv.slice(3),
  options: {
    bootstrap: text(''),
    group: text(''),
    topics: text(''),
    pattern: text(''),
    protocol: text('classic'),
    assignor: text(''),
    commit: text('none'),
    'instance-prefix': text(''),
    'session-timeout-ms': text('6000'),
    login: text(''),
    members: text('1'),
    first: text('0'),
  },
})

function emitter(member) {
  return (event, fields = {}) => process.stdout.write(JSON.stringify({ event, member, ...fields }) + '\n')
}

function optionsOf(member) {
  return {
    bootstrap: values.bootstrap,
    group: values.group,
    topics: values.topics === '' ? [] : values.topics.split(','),
    pattern: values.pattern,
    protocol: values.protocol,
    assignor: values.assignor,
    commit: values.commit,
    sessionTimeoutMs: Number(values['session-timeout-ms']),
    instanceId: values['instance-prefix'] === '' ? null : values['instance-prefix'] + member,
    login: values.login === '' ? null : JSON.parse(readFileSync(values.login, 'utf8')),
    member,
  }
}

// A member is what its adapter's `start` resolves to: a function that lets it leave.
const { start } = await import(`./${client}.js`)
const first = Number(values.first)
const members = new Map()
for (let number = first; number < first + Number(values.members); number++) {
  const emit = emitter(number)
  members.set(number, { emit, leave: start(optionsOf(number), emit), closed: null })
}

function close(number) {
  const member = members.get(number)
  member.closed ??= member.leave
    .then(leave => leave())
    .catch(error => member.emit('error', { error: String(error) }))
    .then(() => member.emit('closed'))
  return member.closed
}

let stopping = false
async function stopAll() {
  if (stopping) {
    return
  }
  stopping = true
  await Promise.all([...members.keys()].map(close))
  process.stdout.write('', () => process.exit(0))
}

for (const [number, member] of members) {
  member.leave.catch(error => {
    member.emit('error', { error: String(error) })
    close(number)
  })
}
process.on('SIGTERM', stopAll)
const lines = createInterface({ input: process.stdin })
lines.on('line', line => {
  if (line === 'stop') {
    stopAll()
  } else if (line.startsWith('close ')) {
    close(Number(line.slice(6)))
  }
})
lines.on('close', stopAll)
