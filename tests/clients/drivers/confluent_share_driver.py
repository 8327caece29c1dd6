"""One member of a share group that does what stdin says: librdkafka's share consumer.

The Java and Go drivers have the same command line, commands and answers. Each command and each
answer is one JSON object on a line, and each command has one answer:

- `poll` for up to `seconds`: `records`, each `[topic, partition, offset, delivery count]`;
- `acknowledge` `records` (`[topic, partition, offset]`) `as` accept, release, reject or renew:
  `acknowledged`. They are sent by the next `commit` or poll;
- `commit`: `committed` with `results`, each `[topic, partition, null or the error]`;
- `subscribe` to `topics` instead: `subscribed`;
- `close`: `closed`, and the process ends.

A command that the client refuses has the answer `error`. At the end of stdin the process ends
without a word to the broker.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from confluent_kafka import AcknowledgeType, ShareConsumer

COMMIT_S = 20.0


def make_consumer(arguments: list[str] | None = None) -> ShareConsumer:
    """The consumer of a command line, which has subscribed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--client-id", required=True)
    parser.add_argument("--topics", required=True)
    parser.add_argument("--ack", required=True, choices=("implicit", "explicit"))
    # librdkafka has no record_limit.
    parser.add_argument("--acquire", required=True, choices=("batch_optimized",))
    parser.add_argument("--max-records", type=int, required=True)
    found = parser.parse_args(arguments)
    consumer = ShareConsumer(
        {
            "bootstrap.servers": found.bootstrap,
            "group.id": found.group,
            "client.id": found.client_id,
            "share.acknowledgement.mode": found.ack,
            "max.poll.records": found.max_records,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
            "metadata.recovery.strategy": "none",  # see docs/clients.md
            "log_level": 5,
        }
    )
    consumer.subscribe(found.topics.split(","))
    return consumer


def carry_out(consumer: ShareConsumer, command: dict[str, Any]) -> dict[str, Any]:
    """The answer to a command; raises what the client raises."""
    match command["do"]:
        case "poll":
            polled = consumer.poll(command["seconds"])
            failed = [str(message.error()) for message in polled if message.error() is not None]
            if failed:
                return {"event": "error", "error": "; ".join(failed)}
            records = [
                [message.topic(), message.partition(), message.offset(), message.delivery_count()]
                for message in polled
            ]
            return {"event": "records", "records": records}
        case "acknowledge":
            for topic, partition, offset in command["records"]:
                ack_type = AcknowledgeType[command["as"].upper()]
                consumer.acknowledge_offset(topic, partition, offset, ack_type)
            return {"event": "acknowledged"}
        case "commit":
            outcomes = consumer.commit_sync(COMMIT_S)
            results = [
                [at.topic, at.partition, None if error is None else str(error)]
                for at, error in outcomes.items()
            ]
            return {"event": "committed", "results": results}
        case "subscribe":
            consumer.subscribe(command["topics"])
            return {"event": "subscribed"}
        case "close":
            consumer.close()
            return {"event": "closed"}
    raise ValueError(command)


def main() -> None:
    consumer = make_consumer()
    for line in sys.stdin:
        try:
            answer = carry_out(consumer, json.loads(line))
        except Exception as error:  # noqa: BLE001 - the test judges what the client raises
            answer = {"event": "error", "error": repr(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        if answer["event"] == "closed":
            return
    os._exit(1)


if __name__ == "__main__":
    main()
