"""The workers of a main process as one: where groups are, and who must hear of what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from groupd.coordinator.core.frontend.groups import KEY_GROUP
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.workers import messages
from groupd.coordinator.workers.channel import Answer
from groupd.coordinator.workers.link import Place, WorkerLink
from groupd.coordinator.workers.messages import Start
from groupd.coordinator.workers.operations import Operation
from groupd.coordinator.workers.spawn import Spawn, spawn_process
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.storage.log import LogError

STOP_TIMEOUT_S = 3.0
MARKER_TIMEOUT_S = 10.0

TopicPartition = tuple[str, int]


class Cluster:
    """`node()`: the main process's own. `serve(link, operation, body)` answers what a worker
    asks; `make_start(place)` says what it has to know."""

    def __init__(
        self,
        places: Sequence[Place],
        node: Callable[[], Node],
        serve: Callable[[Place, Operation, bytes], Answer],
        make_start: Callable[[Place], Start],
        clock: Clock,
        timeout_ms: int,
        spawn: Spawn = spawn_process,
    ) -> None:
        self._node = node
        self.links = [_link(place, serve, make_start, spawn, clock, timeout_ms) for place in places]
        self._by_shard: dict[int, WorkerLink] = {
            shard: link for link in self.links for shard in link.place.shards
        }

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
        """Until every worker serves. Raises DaemonFailed if one cannot be started."""
        for link in self.links:
            link.supervise()
        for link in self.links:
            await link.first_served()

    async def stop(self) -> None:
        """In order; the main process's writer must still be at work."""
        await asyncio.gather(*(link.stop(STOP_TIMEOUT_S) for link in self.links))
        for link in self.links:
            link.place.bound.close()

    def not_ready(self) -> str | None:
        """Why not all of it serves; None if it does."""
        for link in self.links:
            name = f"worker {link.place.node.node_id}"
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
        """Also those that are just down: they come back at the same place, and an admin client
        that asks all nodes for their groups must not believe that some are gone."""
        return [link.place.node for link in self.links]

    def offsets_leader(self, partition: int) -> int:
        return self._by_shard[partition].place.node.node_id

    def link_of(self, group_id: str) -> WorkerLink:
        return self._by_shard[partition_for(group_id, len(self._by_shard))]

    def find_node(self, key_type: int, key: str) -> Node:
        """Groups are the workers', transactional ids are ours. Also of a worker that is just away:
        its socket stays open, so whoever goes there is answered once it is back. A client that is
        told three times in a row that there is no coordinator may never ask again: librdkafka's
        send_offsets_to_transaction (its issue 5456)."""
        return self.link_of(key).place.node if key_type == KEY_GROUP else self._node()

    # News ---------------------------------------------------------------------------------

    def on_metadata(self, delta: MetadataDelta) -> None:
        body = messages.encode_metadata(delta)
        for link in self.links:
            link.tell(Operation.METADATA, body)

    def on_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        body = messages.encode_group_configs(group_id, configs)
        for link in self.links:
            link.tell(Operation.GROUP_CONFIGS, body)

    def on_broker_configs(self, values: Mapping[str, str]) -> None:
        body = messages.encode_broker_configs(values)
        for link in self.links:
            link.tell(Operation.BROKER_CONFIGS, body)

    def behind(self) -> set[asyncio.Future[bytes]]:
        """News that serving workers have not taken in yet."""
        return {future for link in self.links for future in link.behind()}

    # Transactions -------------------------------------------------------------------------

    async def write_marker(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """The `MarkerTarget` of `__consumer_offsets`."""
        codes: dict[TopicPartition, ErrorCode] = {}
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
) -> dict[TopicPartition, ErrorCode]:
    try:
        async with asyncio.timeout(MARKER_TIMEOUT_S):
            answer = await link.ask(Operation.MARKER, messages.encode_marker(marker, places))
    except (LogError, ApiError, TimeoutError):
        # Written or not: the coordinator asks again, and a marker may be written twice.
        return dict.fromkeys(places, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return messages.decode_codes(answer)


def _link(
    place: Place,
    serve: Callable[[Place, Operation, bytes], Answer],
    make_start: Callable[[Place], Start],
    spawn: Spawn,
    clock: Clock,
    timeout_ms: int,
) -> WorkerLink:
    return WorkerLink(
        place,
        lambda operation, body: serve(place, operation, body),
        lambda: make_start(place),
        spawn,
        clock,
        timeout_ms,
    )
