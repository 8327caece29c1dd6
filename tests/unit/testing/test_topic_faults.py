"""Faults for a topic, and for acknowledgements: which requests they match."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from groupd.coordinator.faults.layer import matches
from groupd.coordinator.faults.spec import make_spec
from groupd.coordinator.faults.topics import topics_of
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.classic_group import HeartbeatRequest
from groupd.protocol.messages.cluster import MetadataRequest
from groupd.protocol.messages.data import FetchRequest, ProduceRequest, ProduceTopic
from groupd.protocol.messages.share_fetch import (
    AcknowledgedPartition,
    AcknowledgedTopic,
    AcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from groupd.protocol.messages.share_group import DeleteShareGroupOffsetsRequest

ORDERS, BILLS = bytes(15) + b"\1", bytes(15) + b"\2"
NAMES = {ORDERS: "orders", BILLS: "bills"}
KNOWN = {topic_id: SimpleNamespace(name=name) for topic_id, name in NAMES.items()}
SESSIONS = {("g", "m"): SimpleNamespace(targets=[(ORDERS, 0), (ORDERS, 1), (BILLS, 0)])}
FETCHES = {7: SimpleNamespace(targets=[("orders", 0), (BILLS, 0)])}


def topics(request: Any) -> list[str]:
    plane = SimpleNamespace(
        catalogue=SimpleNamespace(topic_by_id=KNOWN.get),
        fetch_sessions=SimpleNamespace(get=FETCHES.get),
    )
    shares = SimpleNamespace(sessions=SimpleNamespace(get=SESSIONS.get))
    return list(topics_of(request, cast(Any, plane), cast(Any, shares)))


def acknowledged(*topic_ids: bytes, acks: bool = True) -> tuple[AcknowledgedTopic, ...]:
    batches = (AcknowledgementBatch(0, 1, b"\1"),) if acks else ()
    return tuple(AcknowledgedTopic(one, (AcknowledgedPartition(0, batches),)) for one in topic_ids)


@pytest.mark.parametrize(
    ("request_", "names"),
    [
        (ShareAcknowledgeRequest("g", "m", topics=acknowledged(ORDERS)), ["orders"]),
        (ShareAcknowledgeRequest("g", "m", topics=acknowledged(bytes(16))), []),
        (ShareFetchRequest("g", "m", 4), ["orders", "bills"]),
        (ShareFetchRequest("g", "n", 0, topics=acknowledged(BILLS, acks=False)), ["bills"]),
        (FetchRequest((), session_id=7), ["orders", "bills"]),
        (FetchRequest(()), []),
        (ProduceRequest((ProduceTopic("orders", NO_TOPIC_ID, ()),)), ["orders"]),
        (MetadataRequest((("orders", NO_TOPIC_ID), (None, BILLS))), ["orders", "bills"]),
        (MetadataRequest(None), []),
        (DeleteShareGroupOffsetsRequest("g", ("orders",)), ["orders"]),
        (HeartbeatRequest("g", 1, "m"), []),
    ],
)
def test_the_topics_of_a_request(request_: Any, names: list[str]) -> None:
    assert topics(request_) == names


def hits(request: Any, api_key: int, **given: Any) -> bool:
    return matches(make_spec("drop", given), api_key, None, request, topics)


def test_a_fault_for_a_topic() -> None:
    fetch = ShareFetchRequest("g", "m", 4)
    assert hits(fetch, 78, topic="order*", group="g")
    assert not hits(fetch, 78, topic="order")
    assert not hits(HeartbeatRequest("g", 1, "m"), 12, topic="*")


def test_a_fault_for_acknowledgements() -> None:
    plain = ShareFetchRequest("g", "m", 4, topics=acknowledged(ORDERS, acks=False))
    acking = ShareFetchRequest("g", "m", 4, topics=acknowledged(ORDERS))
    assert hits(acking, 78, acknowledges=True)
    assert not hits(plain, 78, acknowledges=True)
    assert hits(plain, 78, acknowledges=False)
    assert not hits(ShareAcknowledgeRequest("g", "m", topics=acknowledged(BILLS)), 79, api=78)
    assert not hits(HeartbeatRequest("g", 1, "m"), 12, acknowledges=True)


@pytest.mark.parametrize(
    ("alias", "key", "is_meant"),
    [
        ("share", 78, True),
        ("share", 79, True),
        ("share", 76, False),
        ("member", 76, True),
        ("member", 78, True),
        ("heartbeat", 76, True),
        ("group", 76, True),
        ("group", 90, True),
        ("group", 78, False),
    ],
)
def test_which_requests_a_word_means(alias: str, key: int, is_meant: bool) -> None:
    """Leaders of partitions answer ShareFetch, so no coordinator refuses it."""
    assert (key in make_spec("drop", {"api": alias}).api_keys) is is_meant
