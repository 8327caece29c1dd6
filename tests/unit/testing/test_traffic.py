"""What the harness notes of requests on their way to the broker: the epochs that members name, in
heartbeats of every group type."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import Struct

from groupd.coordinator.faults.traffic import Liveness, Traffic
from groupd.protocol.messages.classic_group import HeartbeatRequest, SyncGroupRequest
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from groupd.protocol.messages.offsets import OffsetCommitRequest
from tests.unit.core.raffle.type import BuyTicket


class RaffleHeartbeat(Struct, frozen=True):
    """The heartbeat of an invented group type."""

    group_id: str
    member_id: str
    member_epoch: int


class Broker:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def submit(self, slot: Any, api: Any, request: Any) -> None:
        self.heard.append(request)


def epochs_after(*requests: Any) -> tuple[dict[tuple[str, str], int], int]:
    """The epochs, and how often they have changed."""
    changes: list[None] = []
    broker = Broker()
    liveness = Liveness(lambda: cast(Any, broker))
    traffic = Traffic(cast(Any, broker), liveness, lambda: changes.append(None))
    for request in requests:
        slot = SimpleNamespace(connection=SimpleNamespace(closed=False), watchers=None)
        traffic.submit(cast(Any, slot), cast(Any, None), request)
    assert broker.heard == [*requests]
    return traffic.epochs, len(changes)


@pytest.mark.parametrize(
    "request_",
    [
        HeartbeatRequest("g", 7, "m"),
        SyncGroupRequest("g", 7, "m"),
        ConsumerGroupHeartbeatRequest("g", "m", 7),
        RaffleHeartbeat("g", "m", 7),
    ],
)
def test_a_member_names_its_epoch(request_: Any) -> None:
    assert epochs_after(request_) == ({("g", "m"): 7}, 1)


def test_the_highest_epoch_counts() -> None:
    named = [RaffleHeartbeat("g", "m", epoch) for epoch in (3, 5, 5, 4, 0, -1)]
    assert epochs_after(*named) == ({("g", "m"): 5}, 2)


@pytest.mark.parametrize("request_", [BuyTicket("g", "m"), OffsetCommitRequest("g", 7, "m")])
def test_other_requests_name_none(request_: Any) -> None:
    assert epochs_after(request_) == ({}, 0)
