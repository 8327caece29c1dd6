"""Other nodes of a cluster without sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from groupd.client.connection import UNPROTECTED, ClientSecurity, ConnectionLimits
from groupd.coordinator.cluster.peers import PeerAddress, Peers
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.storage.units import Unit
from tests.support.fake_broker import FakeBroker, FakeNetwork
from tests.support.manual_clock import ManualClock

SELF = 1


class Ownership:
    """`leaders`: the node of each unit; of all others there is none. `in_doubt`: whether the lease
    of this node is."""

    def __init__(self, **_: Any) -> None:
        self.leaders: dict[Unit, int] = {}
        self.in_doubt = False

    def leader(self, unit: Unit) -> int | None:
        return self.leaders.get(unit)

    def serves(self, unit: Unit) -> bool:
        return self.leaders.get(unit) == SELF

    def may_answer(self) -> bool:
        return not self.in_doubt

    async def answering(self, since_ms: int) -> bool:
        return True

    def leader_epoch(self, unit: Unit, since: int = 0) -> int:
        return 0

    def only_leader(self) -> tuple[int, int] | None:
        return None


class World:
    """This node's `peers`, other nodes, whose ids are their ports, and a clock that stands
    still."""

    def __init__(self, network: FakeNetwork) -> None:
        self.network = network
        self.clock = ManualClock()
        self.ownership = Ownership()
        self.addresses: dict[int, PeerAddress] = {}
        self.peers = self.make_peers()

    def make_peers(
        self, security: ClientSecurity = UNPROTECTED, limits: ConnectionLimits | None = None
    ) -> Peers:
        self.peers = Peers(
            CoordinatorConfig(node_id=SELF), self.clock, self.addresses.get, security, limits
        )
        return self.peers

    def add(self, node_id: int, answer: Callable[[Any], Any]) -> FakeBroker:
        self.network.brokers[node_id] = FakeBroker(answer)
        self.addresses[node_id] = PeerAddress("node", node_id)
        return self.network.brokers[node_id]


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(FakeNetwork(monkeypatch))
