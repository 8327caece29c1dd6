"""All workers of a main process: which of them has a group, and changes that go to all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from groupd.coordinator.core.frontend.groups import KEY_GROUP
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.workers.channel import Answer
from groupd.coordinator.workers.link import WorkerLink, WorkerNode
from groupd.coordinator.workers.messages import (
    Codes,
    GroupNews,
    MarkerOrder,
    Start,
    TopicNews,
    TopicPartition,
    WorkerOperation,
    encode,
)
from groupd.coordinator.workers.ownership import MainOwnership
from groupd.coordinator.workers.spawn import Spawn, spawn_process
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.storage.log import LogError

STOP_TIMEOUT_S = 3.0
MARKER_TIMEOUT_S = 10.0


class Cluster:
    """`node_id`, `node()`: the main process's own. `serve(worker, operation, body)` answers what a
    worker asks; `make_start(worker)` makes its START."""

    def __init__(
        self,
        workers: Sequence[WorkerNode],
        node_id: int,
        node: Callable[[], Node],
        serve: Callable[[WorkerNode, WorkerOperation, bytes], Answer],
        make_start: Callable[[WorkerNode], Start],
        clock: Clock,
        timeout_ms: int,
        spawn: Spawn = spawn_process,
    ) -> None:
        self._node = node
        self.links = [_link(one, serve, make_start, spawn, clock, timeout_ms) for one in workers]
        self._by_shard: dict[int, WorkerLink] = {
            shard: link for link in self.links for shard in link.worker.shards
        }
        self.ownership = MainOwnership(
            node_id, {shard: link.node_id for shard, link in self._by_shard.items()}
        )

    # Life ---------------------------------------------------------------------------------

    async def launch(self) -> None:
        """Start the processes; they wait for `start`. Raises OSError, once none is on its way."""
        launched = await asyncio.gather(
            *(link.launch() for link in self.links), return_exceptions=True
        )
        for result in launched:
            if result is not None:
                raise result

    async def start(self) -> None:
        """Start all workers and wait until they serve. Raises DaemonFailed if one cannot."""
        for link in self.links:
            link.supervise()
        for link in self.links:
            await link.first_served()

    async def stop(self) -> None:
        """Stops the workers in order; the main process's writer must still be at work."""
        await asyncio.gather(*(link.stop(STOP_TIMEOUT_S) for link in self.links))
        for link in self.links:
            link.worker.bound.close()

    def not_ready(self) -> str | None:
        """Why not every worker serves; None if all do."""
        for link in self.links:
            name = f"worker {link.node_id}"
            if not link.serving:
                return f"{name} is {link.state.value}{link.trouble}"
            failed = link.health.failed
            if failed:
                return (
                    f"{name}: {len(failed)} shards cannot be loaded, see the log: "
                    f"{', '.join(failed)}"
                )
            if link.health.loading:
                return f"{name}: {link.health.loading} shards are not active yet"
        return None

    # Where things are ---------------------------------------------------------------------

    @property
    def nodes(self) -> list[Node]:
        """The nodes of all workers, also of those that are down: they come back with the same
        address, and an admin client that asks all nodes for their groups must not believe that some
        are gone."""
        return [link.worker.node for link in self.links]

    def link_of(self, group_id: str) -> WorkerLink:
        return self._by_shard[partition_for(group_id, len(self._by_shard))]

    def find_node(self, key_type: int, key: str) -> Node:
        """The coordinator: a worker for a group, the main process for a transactional id. A worker
        that is being restarted is named too: its socket stays open, so clients that connect are
        answered once it is back. A client that gets COORDINATOR_NOT_AVAILABLE three times in a row
        may never ask again: librdkafka's send_offsets_to_transaction (its issue 5456)."""
        return self.link_of(key).worker.node if key_type == KEY_GROUP else self._node()

    # Changes ------------------------------------------------------------------------------

    def on_metadata(self, delta: MetadataDelta) -> None:
        body = encode(TopicNews.of(delta))
        for link in self.links:
            link.tell(WorkerOperation.METADATA, body)

    def on_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        body = encode(GroupNews(group_id, configs))
        for link in self.links:
            link.tell(WorkerOperation.GROUP_CONFIGS, body)

    def on_broker_configs(self, values: Mapping[str, str]) -> None:
        body = encode(values)
        for link in self.links:
            link.tell(WorkerOperation.BROKER_CONFIGS, body)

    def behind(self) -> set[asyncio.Future[bytes]]:
        """Changes that serving workers have not confirmed yet."""
        return {future for link in self.links for future in link.behind()}

    # Transactions -------------------------------------------------------------------------

    async def write_marker(self, marker: Marker, partitions: Sequence[TopicPartition]) -> Codes:
        """The `MarkerTarget` of `__consumer_offsets`."""
        codes: Codes = {}
        asked: dict[WorkerLink, list[TopicPartition]] = {}
        for place in partitions:
            link = self._by_shard.get(place[1])
            if link is None:
                codes[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                asked.setdefault(link, []).append(place)
        answers = await asyncio.gather(
            *(_write_marker(link, marker, places) for link, places in asked.items())
        )
        for answer in answers:
            codes |= answer
        return codes


async def _write_marker(
    link: WorkerLink, marker: Marker, places: Sequence[TopicPartition]
) -> Codes:
    try:
        async with asyncio.timeout(MARKER_TIMEOUT_S):
            codes: Codes = await link.ask(
                WorkerOperation.MARKER, MarkerOrder(marker, tuple(places))
            )
            return codes
    except (LogError, ApiError, TimeoutError):
        # Written or not: the coordinator asks again, and a marker may be written twice.
        return dict.fromkeys(places, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _link(
    worker: WorkerNode,
    serve: Callable[[WorkerNode, WorkerOperation, bytes], Answer],
    make_start: Callable[[WorkerNode], Start],
    spawn: Spawn,
    clock: Clock,
    timeout_ms: int,
) -> WorkerLink:
    return WorkerLink(
        worker,
        lambda operation, body: serve(worker, operation, body),
        lambda: make_start(worker),
        spawn,
        clock,
        timeout_ms,
    )
