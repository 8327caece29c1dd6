"""The pure core behind the front end of the daemon: same checks, same routes, same wire code,
virtual time, scripted appends. No sockets, no tasks, no store."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Collection, Mapping
from typing import Any, cast

from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import with_settings
from groupd.coordinator.config.keys import check_changes
from groupd.coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    PartitionAssignor,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.loader import load_assignors, load_share_assignor
from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.core.group_configs import check_altered
from groupd.coordinator.core.group_types import group_configs
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.lag.growth import Bounds, Found, LogEnds
from groupd.coordinator.lag.share_offsets import ShareOffsets
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.topics import AlterConfig
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.log import PartitionLogs
from tests.scenarios.runner import given, records
from tests.scenarios.runner.backend import Names, Ticket
from tests.scenarios.runner.core_persister import CorePersister
from tests.scenarios.runner.core_shard import CoreShard
from tests.support.access import ByRule
from tests.support.kio_entities import message_class, read_response, request_bytes
from tests.support.with_internal_limits import configured

TRANSACTION_APIS = ("InitProducerId", "AddOffsetsToTxn", "WriteTxnMarkers")
LOG_END = 105
"""Where each log ends."""
SINGLE_SHARD = {"offsets.topic.num.partitions": "1"}


class PluggedAssignor(UniformAssignor):
    """For `config: group.consumer.assignors=...`: an assignor that is not built in."""

    name = "plugged"


class ScriptedAssignor:
    """Does what the real assignor does until a scenario gives the target or lets it fail."""

    def __init__(self, real: PartitionAssignor) -> None:
        self.name = real.name
        self._real = real
        self.target: dict[str, Assignment] | None = None
        self.fails = False

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        if self.fails:
            raise RuntimeError("scripted")
        if self.target is not None:
            return {member: self.target.get(member, {}) for member in spec.members}
        return self._real.assign(spec, topics)


class CoreBackend:
    """See `Backend`."""

    kind = "core"

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.names = Names()
        config = configured({**settings, **SINGLE_SHARD})
        self._assignors = {
            name: ScriptedAssignor(real)
            for name, real in load_assignors(config.consumer_assignors).items()
        }
        self._share_assignor = ScriptedAssignor(load_share_assignor(config.share_assignors))
        self._config = config = dataclasses.replace(
            config, consumer_assignors=tuple(self._assignors)
        )
        self._ids = itertools.count(1)
        self._topic_numbers = itertools.count(1)
        self._denied: set[tuple[Operation, Resource, str]] = set()
        self.broker = Broker(
            config,
            self._make_shard,
            cast(PartitionLogs, None),
            cast(Clock, self),
            ROUTES,
        )
        self.persister = CorePersister(
            self.names, lambda call, answer: self.core.answered(call, answer)
        )
        self.core = CoreShard(
            lambda: self._make_shard(self.broker.image, self.broker.group_configs),
            self.persister.take,
        )
        self.broker.shards = cast(Any, [self.core])
        self.broker.served.by_number[0] = cast(Any, self.core)
        self.broker.served.unopened.clear()
        self.broker.started = True
        self.broker.node = Node(0, "127.0.0.1", 9092)
        self._waiting: dict[str, tuple[Ticket, Callback]] = {}

    def now(self) -> Any:
        return self.core.now

    def _make_shard(
        self, image: MetadataImage, configs: Mapping[str, Mapping[str, str]]
    ) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(
            ShardState(
                config=self._config,
                new_id=lambda: f"00000000-0000-4000-8000-{next(self._ids):012d}",
                assignors=self._assignors,
                image=image,
                group_configs={group: dict(its) for group, its in configs.items()},
                share_assignor=self._share_assignor,
            )
        )

    # Requests -----------------------------------------------------------------------------

    def send(self, ticket: Ticket, *, parked: bool) -> None:
        request_class = message_class(ticket.api, ticket.version, "request")
        api = API_BY_KEY[int(request_class.__api_key__)]
        body = request_bytes(ticket.api, ticket.version, ticket.fields)
        request = api.decode(body, 0, ticket.version)

        def resolve(reply: Any) -> None:
            encoded = bytes(api.encode(reply, ticket.version))
            ticket.reply = read_response(ticket.api, ticket.version, encoded)

        if ticket.api == "IncrementalAlterConfigs":
            ticket.reply = self._alter_configs(ticket.fields)
            return
        if ticket.api in TRANSACTION_APIS:
            ticket.reply = self._transactions(ticket.api, ticket.fields)
            return
        waiter = Callback(request, api.failure, resolve)
        context = RequestContext(
            waiter, ticket.version, ticket.actor or "wire", "/127.0.0.1", ByRule(self._allows)
        )
        if ticket.api == "DescribeShareGroupOffsets":
            offsets = ShareOffsets(self.broker, self.persister, cast(LogEnds, self))
            resolve(asyncio.run(offsets.describe(context, request)))
            return
        self.broker.submit(context, request)
        self._waiting[ticket.actor] = (ticket, waiter)

    def wait(self, ticket: Ticket) -> None:
        """Does nothing: whatever is to come has come."""

    poll = wait

    def disconnect(self, actor: str) -> None:
        _, waiter = self._waiting.pop(actor)
        waiter.forget()

    async def look(self, wanted: Mapping[str, Collection[int]]) -> Found:
        """The bounds of logs, of which each has `LOG_END` records."""
        return {name: dict.fromkeys(its, Bounds(0, LOG_END)) for name, its in wanted.items()}

    def _allows(self, operation: Operation, resource: Resource, name: str) -> bool:
        return not {(operation, resource, name), (operation, resource, "*")} & self._denied

    def _transactions(self, api: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Does the transaction coordinator's part: it agrees to everything."""
        if api != "WriteTxnMarkers":
            return {"error_code": 0, "producer_id": next(self._ids), "producer_epoch": 0}
        (marker,) = fields["markers"]
        code = self.core.write_marker(marker["producer_id"], marker["transaction_result"])
        partitions = [{"partition_index": 0, "error_code": int(code)}]
        return {"markers": [{"topics": [{"partitions": partitions}]}]}

    def _alter_configs(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Does the data plane's part, without its store."""
        responses = []
        for resource in fields["resources"]:
            group = resource["resource_name"]
            changes = tuple(
                AlterConfig(one["name"], one["config_operation"], one["value"])
                for one in resource["configs"]
            )
            code, message = 0, None
            try:
                check_altered(group)
                check_changes(changes)
                current = self.broker.group_configs.get(group, {})
                changed = group_configs().alter(self._config, current, changes)
            except ApiError as error:
                code, message = int(error.code), error.message
            else:
                self.broker.on_group_configs(group, changed)
            responses.append({"error_code": code, "error_message": message})
        return {"responses": responses}

    # Topics -------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int, racks: Any = ()) -> None:
        topic_id = next(self._topic_numbers).to_bytes(16, "big")
        self.names.new_topic(name, topic_id)
        topics = {
            **self.broker.image.by_name,
            name: TopicImage(topic_id, name, partitions, racks=racks),
        }
        old = self.broker.image.by_name.get(name)
        gone = () if old is None else ((name, old.topic_id),)
        self._publish(topics, created=frozenset([name]), deleted=gone)

    def grow_topic(self, name: str, partitions: int) -> None:
        self._change(name, partitions=partitions)

    def _change(self, name: str, **changes: Any) -> None:
        topics = dict(self.broker.image.by_name)
        topics[name] = replace(topics[name], **changes)
        self._publish(topics, changed=frozenset([name]))

    def delete_topic(self, name: str) -> None:
        topics = dict(self.broker.image.by_name)
        gone = topics.pop(name)
        self.names.topic_ids.pop(name)
        self._publish(topics, deleted=((name, gone.topic_id),))

    def _publish(self, topics: Mapping[str, TopicImage], **what: Any) -> None:
        old = self.broker.image
        created_version = old.version + 1 if what.get("created") else old.created_version
        image = MetadataImage(topics.values(), old.version + 1, created_version)
        self.broker.on_metadata(MetadataDelta(image, **what))

    # Control ------------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        self.core.advance(ms)

    def control(self, verb: str, words: list[str]) -> list[str]:
        lines: list[str] | None = getattr(self, "_" + verb.lower().replace("-", "_"))(*words)
        return lines or []

    def _deny(self, operation: str, resource: str, name: str) -> None:
        self._denied.add((Operation[operation], Resource[resource], name))

    def _allow_all(self) -> None:
        self._denied.clear()

    def _appends(self, what: str) -> None:
        """`hold`; `commit` or an error code ends the oldest; `fail=CODE` fails the next one."""
        if what == "hold":
            self.core.hold_appends = True
        elif what == "commit":
            self.core.hold_appends = False
            self.core.end_append(None)
        elif what.startswith("fail="):
            self.core.next_append_fails = ErrorCode[what.removeprefix("fail=")]
        else:
            self.core.end_append(ErrorCode[what])

    def _tasks(self, what: str) -> None:
        self.core.hold_tasks = what == "hold"
        if what == "run":
            self.core.run_tasks()

    def _coordinator(self, what: str) -> None:
        """`loading`, `elsewhere`, `stopped`, `unload`, `reload`, `active`."""
        if what == "reload":
            self.core.reload()
        elif what == "unload":
            self.core.unload()
        self.broker.started = what != "stopped"
        states = {"loading": CoordinatorState.LOADING, "elsewhere": CoordinatorState.CLOSED}
        if what != "unload":
            self.core.state = states.get(what, CoordinatorState.ACTIVE)

    def _setting(self, *pairs: str) -> None:
        """Changes broker settings. They are effective when the shard is next loaded, or at once if
        they are read when they are used."""
        changes = dict(pair.split("=", 1) for pair in pairs)
        self._config = with_settings(self._config, changes)
        self.broker.config = self.core.shard.state.config = self._config

    def _racks(self, topic: str, racks: str) -> None:
        """`a,b;b,c`: the racks of each partition's replicas."""
        self._change(topic, racks=tuple(tuple(sorted(p.split(","))) for p in racks.split(";")))

    def _target(self, *entries: str) -> None:
        """`m1={foo:0-2}` ...: the assignor's next answers; nothing: the real assignor again."""
        target = {}
        for entry in entries:
            member, _, text = entry.partition("=")
            target[self.names.member(member)] = given.by_id(self.names, text)
        for assignor in self._assignors.values():
            assignor.fails = False
            assignor.target = target or None

    def _assignor(self, what: str) -> None:
        for assignor in (*self._assignors.values(), self._share_assignor):
            assignor.fails = what == "fails"

    def _persister(self, *words: str) -> None:
        self.persister.control(*words)

    def _record(self, *words: str) -> None:
        self.core.inject(given.record(self.names, list(words)))

    def _timers(self, *_: str) -> list[str]:
        return [
            f"+ {kind} {self.names.alias(member)} in {ms}".replace("null ", "").replace('"" ', "")
            for (kind, group, member), ms in self.core.timers()
            if group
        ]

    def inner(self) -> list[str]:
        written, self.core.written = self.core.written, []
        events, self.core.events = self.core.events, []
        heard, self.persister.heard = self.persister.heard, []
        shown = records.show_records(self.names, written, self.core.now)
        return shown + heard + records.show_events(self.names, events)

    def finish(self) -> None:
        """Does nothing: there is nothing to give back."""
