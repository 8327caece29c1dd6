"""What clients say of their producer is not believed, in any API, over TCP; a real broker answers
the same (GROUPD_PEER=kafka)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as Warmer

from groupd.protocol.records.batch_builder import encode_batch
from tests.support.peer import Peer, make_peer, running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

NONE, INVALID_REQUEST, OUT_OF_ORDER, INVALID_EPOCH = 0, 42, 45, 47
INVALID_TXN_STATE, INVALID_MAPPING, DENIED, FENCED = 48, 49, 53, 90
NEVER_GIVEN = 10**9
PASSING = (14, 15, 16, 51)
"""Errors that pass: a coordinator is still loading, or about to write."""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A peer whose two coordinators serve."""
    with running(make_peer(tmp_path_factory.mktemp("peer"), topics={"t": 1})) as made:
        settings = {"bootstrap.servers": made.bootstrap, "log_level": 0}
        Warmer({**settings, "transactional.id": "warm-up"}).init_transactions(30)
        yield made


class Claims:
    """A client, and a transactional id of its own with its producer."""

    def __init__(self, peer: Peer) -> None:
        self.client = WireClient(peer.host, peer.port)
        self.name = f"tx-{uuid.uuid4().hex[:8]}"
        code, self.producer, self.epoch = self.init(self.name)
        assert code == NONE

    def init(self, name: str | None, producer: int = -1, epoch: int = -1) -> tuple[int, int, int]:
        """Sends InitProducerId; the code, an id and an epoch."""
        found: dict[str, Any] = {}

        def answered() -> bool:
            found.update(
                self.client.call(
                    "InitProducerId",
                    4,
                    transactional_id=name,
                    transaction_timeout=60_000,
                    producer_id=producer,
                    producer_epoch=epoch,
                )
            )
            return found["error_code"] not in PASSING

        wait_until(answered, 20, "the coordinator serves")
        return found["error_code"], found["producer_id"], found["producer_epoch"]

    def add(self, name: str, producer: int, epoch: int) -> int:
        reply = self.client.call(
            "AddPartitionsToTxn",
            3,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[{"name": "t", "partitions": [0]}],
        )
        (topic,) = reply["results_by_topic_v3_and_below"]
        return int(topic["results_by_partition"][0]["partition_error_code"])

    def add_offsets(self, name: str, producer: int, epoch: int) -> int:
        asked = {"producer_id": producer, "producer_epoch": epoch, "group_id": "g"}
        return int(
            self.client.call("AddOffsetsToTxn", 3, transactional_id=name, **asked)["error_code"]
        )

    def end(self, name: str, producer: int, epoch: int) -> int:
        asked = {"producer_id": producer, "producer_epoch": epoch, "committed": True}
        return int(self.client.call("EndTxn", 3, transactional_id=name, **asked)["error_code"])

    def commit(self, name: str, producer: int, epoch: int) -> int:
        """Sends TxnOffsetCommit; its code."""
        partition = {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        reply = self.client.call(
            "TxnOffsetCommit",
            3,
            transactional_id=name,
            group_id="g",
            producer_id=producer,
            producer_epoch=epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": "t", "partitions": [partition]}],
        )
        return int(reply["topics"][0]["partitions"][0]["error_code"])

    def produce(
        self, name: str | None, producer: int, epoch: int, sequence: int = 0, *, tx: bool = True
    ) -> int:
        now_ms = int(time.time() * 1000)
        records = encode_batch(0, -1, now_ms, [(None, b"v")], producer, epoch, sequence, tx)
        data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
        reply = self.client.call(
            "Produce", 9, transactional_id=name, acks=-1, timeout=10_000, topic_data=data
        )
        return int(reply["responses"][0]["partition_responses"][0]["error_code"])


@pytest.fixture
def claims(peer: Peer) -> Iterator[Claims]:
    made = Claims(peer)
    yield made
    made.client.close()


@pytest.mark.parametrize("claim", [(0, 0), (0, 1), (-2, -2), (NEVER_GIVEN, 32767)])
def test_without_a_transactional_id_every_id_is_new(claims: Claims, claim: tuple[int, int]) -> None:
    first, second = claims.init(None, *claim), claims.init(None, *claim)
    assert (first[0], first[2], second[0], second[2]) == (NONE, 0, NONE, 0)
    assert len({first[1], second[1], claims.producer}) == 3
    assert claims.init(None, *first[1:])[1:] not in (first[1:], (first[1], 1))


@pytest.mark.parametrize("claim", [(5, -1), (-1, 5)])
def test_half_a_claim(claims: Claims, claim: tuple[int, int]) -> None:
    assert claims.init(None, *claim) == (INVALID_REQUEST, -1, -1)
    assert claims.init(claims.name, *claim) == (INVALID_REQUEST, -1, -1)


def test_with_a_transactional_id_the_claim_must_be_right(claims: Claims) -> None:
    name, mine = claims.name, (claims.producer, claims.epoch)
    assert claims.init(name, NEVER_GIVEN, 0)[0] == FENCED
    assert claims.init(name, claims.producer, claims.epoch + 99)[0] == FENCED
    bumped = claims.init(name, *mine)
    assert bumped == (NONE, claims.producer, claims.epoch + 1)
    assert claims.init(name, *mine) == bumped  # as if the answer was lost
    fresh = claims.init(f"{name}-other", NEVER_GIVEN, 7)
    assert (fresh[0], fresh[1] != NEVER_GIVEN, fresh[2]) == (NONE, True, 0)


@pytest.mark.parametrize("call", ["add", "add_offsets", "end", "commit"])
def test_requests_in_a_transaction(claims: Claims, call: str) -> None:
    ask, name, mine = getattr(claims, call), claims.name, claims.producer
    fenced = INVALID_EPOCH if call == "commit" else FENCED
    assert ask(name, NEVER_GIVEN, 0) == INVALID_MAPPING
    assert ask(name, mine, claims.epoch + 9) == fenced
    assert ask(f"{name}-nobody", mine, claims.epoch) == INVALID_MAPPING


def test_what_was_not_added_is_not_written(claims: Claims) -> None:
    name, mine, epoch = claims.name, claims.producer, claims.epoch
    assert claims.produce(name, mine, epoch) == INVALID_TXN_STATE
    assert claims.commit(name, mine, epoch) == INVALID_TXN_STATE
    assert claims.end(name, mine, epoch) == INVALID_TXN_STATE
    assert claims.produce(name, NEVER_GIVEN, 0) == INVALID_MAPPING
    assert claims.produce(name, mine, epoch + 3) == INVALID_EPOCH
    assert claims.produce(None, mine, epoch) == DENIED


def test_a_log_knows_only_what_was_written_to_it(claims: Claims) -> None:
    """An id that was never given may write, from any sequence on, as one that was forgotten."""
    producer = 5 * 10**8 + int(claims.name[3:], 16) % 10**8
    codes = [claims.produce(None, producer, 0, sequence, tx=False) for sequence in (7, 8, 8, 3, 9)]
    assert codes == [NONE, NONE, NONE, OUT_OF_ORDER, NONE]
