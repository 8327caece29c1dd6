"""Who takes part: groups, their members, subscriptions, instances that two members claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.classic_client import ClassicClient
from tests.simulator.client import Client, Subscription
from tests.simulator.consumer_client import ConsumerClient

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation

PATTERNS = ("topic-.*", "topic-[01]", "topic-0|topic-2", ".*-1", "none-.*")
CONFLICT_SHARE = 0.15
START_WITHIN_MS = 10_000


def populate(simulation: Simulation) -> None:
    options, world = simulation.options, simulation.world
    kinds = ["consumer"] * options.consumer_groups + ["classic"] * options.classic_groups
    for number, kind in enumerate(kinds):
        group_id = f"{kind}-{number}"
        simulation.group_ids.append(group_id)
        cooperative = world.chance(0.5)
        for place in range(max(1, options.members // len(kinds))):
            _add(simulation, kind, group_id, place, cooperative)
    for client in simulation.clients:
        world.after(world.between(0, START_WITHIN_MS), _first_start, client)


def _add(simulation: Simulation, kind: str, group_id: str, place: int, cooperative: bool) -> None:
    options, world = simulation.options, simulation.world
    if options.mixed_groups:
        kind = world.random.choice(["consumer", "classic"])
    instance_id = f"instance-{place}" if world.chance(options.static_share) else None
    names = [f"{group_id}-c{place}"]
    if instance_id is not None and world.chance(CONFLICT_SHARE):
        names.append(f"{group_id}-c{place}-rival")
    subscription = draw_subscription(simulation, kind)
    for name in names:
        client: Client
        if kind == "consumer":
            client = ConsumerClient(simulation, name, group_id, instance_id, subscription)
        else:
            client = ClassicClient(simulation, name, group_id, instance_id, subscription)
            client.cooperative = cooperative
        simulation.clients.append(client)


def _first_start(client: Client) -> None:
    if not client.running and client.life == 0:
        client.start()


def draw_subscription(simulation: Simulation, kind: str) -> Subscription:
    options, world = simulation.options, simulation.world
    topics = simulation.topics.names
    if kind == "consumer" and world.chance(options.regex_share):
        return Subscription((), world.random.choice(PATTERNS))
    if world.chance(0.6):
        return Subscription(topics)
    count = world.between(1, len(topics))
    return Subscription(tuple(sorted(world.random.sample(topics, count))))


def is_rival(client: Client) -> bool:
    return client.name.endswith("-rival")
