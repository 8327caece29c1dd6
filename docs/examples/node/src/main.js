// node src/main.js SERVERS, until SIGTERM or Ctrl-C
import { Processor } from './processor.js'

const [servers] = process.argv.slice(2)
const charge = async order => console.log(`charged ${order.cents} cents for ${order.id}`)
const crashed = error => {
  console.error(error)
  process.exit(1)
}

const processor = new Processor(servers, charge, { crashed })
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => processor.stop())
}
await processor.start()
