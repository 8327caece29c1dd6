// kafkajs, which speaks the classic protocol.
import { Kafka } from "kafkajs";

const kafka = new Kafka({ clientId: "example", brokers: [process.argv[2] ?? "127.0.0.1:9092"] });

const producer = kafka.producer();
await producer.connect();
const messages = Array.from({ length: 10 }, (_, number) => ({ value: `order ${number}` }));
await producer.send({ topic: "orders", messages });
await producer.disconnect();

const consumer = kafka.consumer({ groupId: "billing-kafkajs" });
await consumer.connect();
await consumer.subscribe({ topic: "orders", fromBeginning: true });
let seen = 0;
await new Promise((done) =>
  consumer.run({
    eachMessage: async ({ partition, message }) => {
      console.log(partition, message.offset, message.value.toString());
      if (++seen === 10) done();
    },
  }),
);
await consumer.disconnect(); // commits what was handled
