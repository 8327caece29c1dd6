"""kafka-python, which speaks the classic protocol."""

import sys

from kafka import KafkaConsumer, KafkaProducer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"

producer = KafkaProducer(bootstrap_servers=bootstrap)
for number in range(10):
    producer.send("orders", f"order {number}".encode())
producer.close()

consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=bootstrap,
    group_id="billing-kafka-python",
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    consumer_timeout_ms=30000,
)
seen = 0
for message in consumer:
    print(message.partition, message.offset, message.value.decode())
    seen += 1
    if seen == 10:
        break
consumer.commit()
consumer.close()
sys.exit(seen != 10)
