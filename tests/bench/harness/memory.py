"""`python -m tests.bench.harness.memory PEER`: MB of one broker among many that run at once, in a
process that held none before: what earlier ones left behind would be used again."""

from __future__ import annotations

import sys

from tests.bench.harness.measures import TOPICS, connect
from tests.bench.peers.embedded import KINDS

BROKERS = 25


def main(name: str) -> float:
    kind = next(cls for cls in KINDS if cls.name == name)(TOPICS)
    brokers = [kind.start()]  # what the first one loads is not counted
    try:
        connect(brokers[0].bootstrap)
        before = kind.resident_bytes()
        brokers += [kind.start() for _ in range(BROKERS)]
        for broker in brokers:
            connect(broker.bootstrap)
        return (kind.resident_bytes() - before) / BROKERS / 1e6
    finally:
        for broker in brokers:
            broker.close()
        kind.close()


if __name__ == "__main__":
    print(main(sys.argv[1]))
