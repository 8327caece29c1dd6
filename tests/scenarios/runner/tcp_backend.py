"""A started broker over TCP: groupd or Apache Kafka. Each actor has a connection of its own, so a
parked request holds up nobody else."""

from __future__ import annotations

import time

from tests.scenarios.runner.backend import Names, Ticket, unique_prefix
from tests.scenarios.runner.command import Partitions, partitions_of
from tests.support.kio_entities import Plain
from tests.support.wire_client import NoReply, WireClient

PARKED_S = 0.02
"""How long to wait for an answer that is not expected yet; `poll` finds a later one."""
UNEXPECTED_S = 3.0
ANSWER_S = 15.0
TOPIC_TIMEOUT_S = 20.0
TRANSACTIONS_S = 60.0
COORDINATOR_LOAD_IN_PROGRESS = 14
PARKABLE = ("JoinGroup", "SyncGroup", "OffsetFetch")


class TcpBackend:
    """See `Backend`. `settle_s`: how long the broker needs to take in new metadata."""

    def __init__(self, kind: str, host: str, port: int, settle_s: float = 0.0) -> None:
        self.kind = kind
        self.names = Names(prefix=unique_prefix())
        self._address = (host, port)
        self._settle_s = settle_s
        self._clients: dict[str, WireClient] = {}
        self._waiting: dict[str, Ticket] = {}
        offsets = [{"topic_id": None, "name": "__consumer_offsets"}]
        reply = self._admin("Metadata", 12, topics=offsets, allow_auto_topic_creation=False)
        self.names.offsets_partitions = len(reply["topics"][0]["partitions"])

    def _client(self, actor: str) -> WireClient:
        if actor not in self._clients:
            self._clients[actor] = WireClient(*self._address, client_id=actor or "wire")
        return self._clients[actor]

    # Requests -----------------------------------------------------------------------------

    def send(self, ticket: Ticket, *, parked: bool) -> None:
        assert ticket.actor not in self._waiting, f"{ticket.actor} waits for a reply already"
        self._ask(ticket)
        if ticket.api in PARKABLE:
            self._receive(ticket, PARKED_S if parked else UNEXPECTED_S)
            return
        self._receive(ticket, ANSWER_S)
        deadline = time.monotonic() + TRANSACTIONS_S
        while self._is_loading(ticket) and time.monotonic() < deadline:
            time.sleep(0.1)
            self._ask(ticket)
            self._receive(ticket, ANSWER_S)

    def _ask(self, ticket: Ticket) -> None:
        self._client(ticket.actor).send(ticket.api, ticket.version, ticket.fields)
        self._waiting[ticket.actor] = ticket

    def _is_loading(self, ticket: Ticket) -> bool:
        """Whether Kafka's transaction coordinator is still loading: on a slow machine, also when it
        has answered others and waits for a new block of producer ids. Clients ask again, too."""
        loading = (ticket.reply or {}).get("error_code") == COORDINATOR_LOAD_IN_PROGRESS
        return self.kind == "kafka" and ticket.api == "InitProducerId" and loading

    def wait(self, ticket: Ticket) -> None:
        self._receive(ticket, ANSWER_S)

    def poll(self, ticket: Ticket) -> None:
        self._receive(ticket, 0.001)

    def _receive(self, ticket: Ticket, timeout_s: float) -> None:
        try:
            ticket.reply = self._client(ticket.actor).receive(timeout_s)
        except NoReply:
            return
        del self._waiting[ticket.actor]

    def disconnect(self, actor: str) -> None:
        self._clients.pop(actor).close()
        self._waiting.pop(actor, None)

    # Topics -------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int) -> None:
        topic = {
            "name": self.names.out(name),
            "num_partitions": partitions,
            "replication_factor": 1,
        }
        reply = self._admin("CreateTopics", 7, topics=[topic], timeout=10_000)
        self._check(reply["topics"])
        self.names.new_topic(name, reply["topics"][0]["topic_id"])
        self._until(name, partitions)

    def grow_topic(self, name: str, partitions: int) -> None:
        topic = {"name": self.names.out(name), "count": partitions}
        self._check(self._admin("CreatePartitions", 3, topics=[topic], timeout=10_000)["results"])
        self._until(name, partitions)

    def delete_topic(self, name: str) -> None:
        topic = {"name": self.names.out(name), "topic_id": None}
        self._check(self._admin("DeleteTopics", 6, topics=[topic], timeout=10_000)["responses"])
        self.names.topic_ids.pop(name)
        self._until(name, 0)

    def _admin(self, api: str, version: int, **fields: object) -> Plain:
        return self._client("").call(api, version, **fields)

    @staticmethod
    def _check(results: list[Plain]) -> None:
        for result in results:
            assert result["error_code"] == 0, result

    def _until(self, name: str, partitions: int) -> None:
        """Waits until Metadata shows the topic with so many partitions that have a leader."""
        deadline = time.monotonic() + TOPIC_TIMEOUT_S
        asked = [{"topic_id": None, "name": self.names.out(name)}]
        while True:
            reply = self._admin("Metadata", 12, topics=asked, allow_auto_topic_creation=False)
            (topic,) = reply["topics"]
            led = [one for one in topic["partitions"] if one["leader_id"] >= 0]
            if len(led) == partitions:
                break
            assert time.monotonic() < deadline, f"{name} has not {partitions} partitions"
            time.sleep(0.02)
        time.sleep(self._settle_s)

    # The rest -----------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Waits in real time; scenarios that need much of it run on the core only."""
        time.sleep(ms / 1000)

    def control(self, verb: str, words: list[str]) -> list[str]:
        """Display is left to the core; everything else cannot be done to a broker. A broker's share
        coordinator cannot be held, but it can be waited for."""
        if verb == "PERSISTER" and words[0] == "answer":
            self._until_initialized(partitions_of(words[1]))
        else:
            known = verb == "TIMERS" or words == ["hold"]
            assert known, f"{verb} {words} is for the core only"
        return []

    def _until_initialized(self, wanted: Partitions) -> None:
        """Waits until share group g has these initialized partitions, and no others."""
        expected = {self.names.out(topic): numbers for topic, numbers in wanted.items()}
        asked = [{"group_id": self.names.out("g"), "topics": None}]
        deadline = time.monotonic() + TRANSACTIONS_S
        while True:
            (group,) = self._admin("DescribeShareGroupOffsets", 1, groups=asked)["groups"]
            found = {
                topic["topic_name"]: sorted(one["partition_index"] for one in topic["partitions"])
                for topic in group["topics"]
            }
            if found == expected:
                return
            assert time.monotonic() < deadline, f"{found} are initialized, not {expected}"
            time.sleep(0.02)

    def inner(self) -> list[str]:
        return []

    def finish(self) -> None:
        for client in self._clients.values():
            client.close()
