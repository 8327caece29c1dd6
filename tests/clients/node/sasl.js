// Usage: sasl.js BOOTSTRAP TOKEN. KafkaJS logs in by every mechanism, produces and consumes; one line for each.
import { Kafka, logLevel } from "kafkajs";

const [bootstrap, token] = process.argv.slice(2);
const password = { username: "alice", password: "alice-pw" };
const MECHANISMS = {
  plain: password,
  "scram-sha-256": password,
  "scram-sha-512": password,
  oauthbearer: { oauthBearerProvider: async () => ({ value: token }) },
};

async function run(mechanism, extra) {
  const kafka = new Kafka({
    brokers: [bootstrap],
    logLevel: logLevel.ERROR,
    sasl: { mechanism, ...extra },
  });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: "orders", messages: [{ value: "kafkajs" }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: `kafkajs-${mechanism}` });
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await new Promise((found) => consumer.run({ eachMessage: async () => found() }));
  await consumer.disconnect();
  console.log(mechanism);
}

async function main() {
  for (const [mechanism, extra] of Object.entries(MECHANISMS)) await run(mechanism, extra);
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
