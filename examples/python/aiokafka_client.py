"""aiokafka, which speaks the classic protocol."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def main(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait("orders", f"order {number}".encode())

    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="billing-aiokafka",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        for _ in range(10):
            message = await asyncio.wait_for(consumer.getone(), 30)
            print(message.partition, message.offset, message.value.decode())
        await consumer.commit()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"))
