"""Asks every node, all along, what the groups have committed, whether it is their coordinator or
not: whoever answers must tell what was acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tests.chaos.cluster.caller import Address, Caller, now
from tests.chaos.cluster.ledger import Ledger
from tests.support.kio_entities import Plain

ROUND_S = 0.5


class Auditor(threading.Thread):
    """`groups`: the topic of each group; `topics`: their partitions."""

    def __init__(
        self,
        groups: Mapping[str, str],
        topics: Mapping[str, int],
        nodes: Callable[[], Sequence[Address]],
        ledger: Ledger,
    ) -> None:
        super().__init__(name="auditor", daemon=True)
        self._groups, self._topics = dict(groups), topics
        self._nodes, self._ledger = nodes, ledger
        self._callers = [Caller(f"auditor-{number}") for number in range(len(nodes()))]
        self._over = threading.Event()

    def run(self) -> None:
        try:
            while not self._over.wait(ROUND_S):
                for number, at in enumerate(self._nodes()):
                    for group, topic in self._groups.items():
                        self._ask(number, at, group, topic)
                    self._callers[number].hear()
        except Exception as error:  # the thread's death must not go unseen
            self._ledger.faults.append(f"the auditor failed: {error!r}")
            raise
        finally:
            for caller in self._callers:
                caller.close()

    def _ask(self, number: int, at: Address, group: str, topic: str) -> None:
        numbers = list(range(self._topics[topic]))
        asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": numbers}]}
        heard = partial(self._heard, now(), f"node {number}")
        self._callers[number].call(at, "OffsetFetch", 8, {"groups": [asked]}, heard)

    def _heard(self, asked: float, whom: str, reply: Plain, late: bool) -> None:
        for group in reply["groups"]:
            if group["error_code"]:
                continue
            for topic in group["topics"]:
                for one in topic["partitions"]:
                    if one["error_code"] == 0:
                        key = group["group_id"], topic["name"], one["partition_index"]
                        offset = one["committed_offset"]
                        said = f"{whom}, late" if late else whom
                        self._ledger.fetched(key, offset, asked, said)

    def stop(self) -> None:
        self._over.set()
        self.join(30)
