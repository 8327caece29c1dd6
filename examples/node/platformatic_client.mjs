// @platformatic/kafka; the group protocol is "consumer" (KIP-848) or "classic".
import { Consumer, Producer, stringDeserializers, stringSerializers } from "@platformatic/kafka";

const [bootstrap = "127.0.0.1:9092", groupProtocol = "consumer"] = process.argv.slice(2);
const common = { clientId: "example", bootstrapBrokers: [bootstrap] };

const producer = new Producer({ ...common, serializers: stringSerializers });
const messages = Array.from({ length: 10 }, (_, number) => ({
  topic: "orders",
  value: `order ${number}`,
}));
await producer.send({ messages });
await producer.close();

const consumer = new Consumer({
  ...common,
  groupId: `billing-platformatic-${groupProtocol}`,
  groupProtocol,
  deserializers: stringDeserializers,
});
const stream = await consumer.consume({ topics: ["orders"], mode: "earliest", autocommit: false });
let seen = 0;
for await (const message of stream) {
  console.log(message.partition, message.offset, message.value);
  await message.commit();
  if (++seen === 10) break;
}
await consumer.close(true);
