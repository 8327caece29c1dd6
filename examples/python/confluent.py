"""confluent-kafka (librdkafka); the group protocol is "consumer" (KIP-848) or "classic"."""

import sys

from confluent_kafka import Consumer, Producer

bootstrap, protocol = sys.argv[1:] or ("127.0.0.1:9092", "consumer")

producer = Producer({"bootstrap.servers": bootstrap})
for number in range(10):
    producer.produce("orders", key=str(number), value=f"order {number}")
producer.flush(10)

consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": f"billing-confluent-{protocol}",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.subscribe(["orders"])
seen = 0
while seen < 10:
    message = consumer.poll(10)
    if message is None or message.error():
        sys.exit(f"no message: {message and message.error()}")
    print(message.partition(), message.offset(), message.value().decode())
    seen += 1
consumer.commit(asynchronous=False)
consumer.close()
