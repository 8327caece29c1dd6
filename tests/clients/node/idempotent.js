// Idempotent producers of @platformatic/kafka, one after the other on one partition, each with COUNT records:
// idempotent.js HOST:PORT TOPIC PRODUCERS COUNT. Prints one line of JSON a producer: its id and epoch, and the
// offset that the broker gave its last record.
import { Producer, stringSerializers } from '@platformatic/kafka'

const [bootstrap, topic, producers, count] = process.argv.slice(2)
for (let number = 0; number < Number(producers); number++) {
  const producer = new Producer({
    clientId: `idempotent-${number}`,
    bootstrapBrokers: bootstrap.split(','),
    idempotent: true,
    serializers: stringSerializers,
  })
  let last = null
  for (let index = 0; index < Number(count); index++) {
    const sent = await producer.send({ messages: [{ topic, partition: 0, value: `${number}-${index}` }] })
    last = Number(sent.offsets[0].offset)
  }
  const said = { id: Number(producer.producerId), epoch: producer.producerEpoch, last }
  process.stdout.write(JSON.stringify(said) + '\n')
  await producer.close()
}
