"""What goes wrong, and what people do: crashes, freezes, clocks, churn, topics, administration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from groupd.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from groupd.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from groupd.protocol.messages.offsets import OffsetFetchGroup, OffsetFetchRequest
from tests.simulator.classic_client import ClassicClient
from tests.simulator.client import Client, Subscription
from tests.simulator.consumer_client import ConsumerClient
from tests.simulator.population import draw_subscription, is_rival

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation

WALL_JUMPS_MS = (-3_600_000, -60_000, -1000, 1000, 60_000, 3_600_000)
FREEZE_MAX_MS = 20_000
RESTART_MS = 500
SETTINGS = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")


class Admin(Client):
    """Asks and alters; it is in no group."""

    def begin(self) -> None:
        """Does nothing: there is nothing to keep up."""

    def commit_identity(self) -> tuple[int, str] | None:
        return None

    def ask(self, request: Any, version: int) -> None:
        self.rpc("admin", request, version, lambda reply: None)


class Chaos:
    """Recurring trouble until `end`."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._admin = Admin(simulation, "admin", "", None, Subscription(()))
        self._over = False

    def begin(self) -> None:
        options = self._simulation.options
        self._admin.start()
        self._every(options.crash_every_ms, self._crash)
        self._every(options.freeze_every_ms, self._freeze)
        self._every(options.wall_jump_every_ms, self._jump)
        self._every(options.churn_every_ms, self._churn)
        self._every(options.topic_change_every_ms, self.change_topics)
        self._every(options.admin_every_ms, self._administer)

    def end(self) -> None:
        """Ends the trouble. Rivals and one in three of the dead stay away; everybody else is there
        and awake."""
        self._over = True
        simulation = self._simulation
        simulation.change_topics(simulation.topics.restore())
        for client in simulation.clients:
            client.frozen = False
            if client.tainted:
                client.say_everything()
            if is_rival(client):
                if client.running:
                    client.die()
            elif not client.running and self._world.chance(0.67):
                client.start()

    def change_one_thing(self) -> None:
        """Changes one thing while everything else is at rest."""
        simulation = self._simulation
        clients = [one for one in simulation.clients if one.running]
        static = [one for one in clients if one.instance_id is not None]
        what = self._world.random.choice(
            ["restart", "restart", "leave", "subscribe", "topics", "crash"]
        )
        self._world.trace("---- one change", what)
        if what == "crash":
            simulation.crash("with everything at rest")
        elif what == "topics" or not clients:
            simulation.change_topics(simulation.topics.change())
        elif what == "subscribe":
            self._subscribe(self._world.random.choice(clients))
        elif what == "leave":
            self._world.random.choice(clients).leave(for_a_while=False)
        else:
            client = self._world.random.choice(static or clients)
            client.leave(for_a_while=True)
            self._world.after(RESTART_MS, client.start)

    def _subscribe(self, client: Client) -> None:
        if isinstance(client, ClassicClient) and client.instance_id is not None:
            # Its restart would bring the new topics in without a rebalance, as in Kafka.
            return
        kind = "consumer" if isinstance(client, ConsumerClient) else "classic"
        client.subscribe(draw_subscription(self._simulation, kind))

    def _every(self, mean_ms: int, run: Callable[[], None]) -> None:
        if mean_ms:
            self._world.after(self._world.between(1, 2 * mean_ms), self._again, mean_ms, run)

    def _again(self, mean_ms: int, run: Callable[[], None]) -> None:
        if not self._over:
            run()
            self._every(mean_ms, run)

    # The machine

    def _crash(self) -> None:
        if self._simulation.options.graceful_restarts and self._world.chance(0.5):
            self._simulation.stop_process()
        else:
            self._simulation.crash("at a random time")

    def _freeze(self) -> None:
        process = self._simulation.process
        if process is not None and process.alive:
            for_ms = self._world.between(100, FREEZE_MAX_MS)
            self._world.trace("broker freezes", for_ms)
            process.loop.freeze(for_ms)

    def _jump(self) -> None:
        simulation = self._simulation
        by_ms = self._world.random.choice(WALL_JUMPS_MS)
        self._world.trace("wall clock jumps", by_ms)
        simulation.wall_offset_ms += by_ms
        if simulation.process is not None:
            simulation.process.clock.wall_offset_ms = simulation.wall_offset_ms

    # The clients

    def _churn(self) -> None:
        client = self._world.random.choice(self._simulation.clients)
        if not client.running:
            client.start()
            return
        what = self._world.random.choice(["leave", "leave", "away", "die", "freeze", "subscribe"])
        if what == "die":
            client.die()
        elif what == "freeze":
            client.freeze(self._world.between(500, 3 * self._simulation.options.session_timeout_ms))
        elif what == "subscribe":
            self._subscribe(client)
        elif not client.frozen:
            client.leave(for_a_while=what == "away")

    # The administrator

    def change_topics(self) -> None:
        if self._over:
            return
        self._simulation.change_topics(self._simulation.topics.change())

    def _administer(self) -> None:
        group_id = self._world.random.choice(self._simulation.group_ids)
        what = self._world.random.choice(["describe", "list", "offsets", "delete", "configure"])
        if what == "describe" and group_id.startswith("consumer"):
            self._admin.ask(ConsumerGroupDescribeRequest((group_id,)), 1)
        elif what == "describe":
            self._admin.ask(DescribeGroupsRequest((group_id,)), 5)
        elif what == "list":
            self._admin.ask(ListGroupsRequest(), 5)
        elif what == "offsets":
            self._admin.ask(OffsetFetchRequest((OffsetFetchGroup(group_id, None),)), 9)
        elif what == "delete":
            self._admin.ask(DeleteGroupsRequest((group_id,)), 2)
        else:
            self._configure(group_id)

    def _configure(self, group_id: str) -> None:
        simulation = self._simulation
        options = simulation.options
        overrides = {}
        if self._world.chance(0.7):
            overrides[SETTINGS[0]] = str(options.session_timeout_ms + self._world.between(0, 3000))
            overrides[SETTINGS[1]] = str(options.heartbeat_interval_ms // self._world.between(1, 2))
        self._world.trace("configure", group_id, overrides)
        simulation.group_configs[group_id] = overrides
        if simulation.process is not None and simulation.process.alive:
            simulation.process.set_group_configs(group_id, overrides)
