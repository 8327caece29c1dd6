"""`groupd configs`: the settings of topics, groups and brokers of any Kafka cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from groupd.coordinator.cli.command_errors import fail, note
from groupd.coordinator.cli.completion import words
from groupd.coordinator.cli.kafka.flags import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Wide,
    asked_cluster,
    is_json,
)
from groupd.coordinator.cli.parse import UsageError, one_of
from groupd.coordinator.cli.tables import json_line, table
from groupd.coordinator.config.values import (
    SOURCE_CLIENT_METRICS,
    SOURCE_DEFAULT,
    SOURCE_DYNAMIC_BROKER,
    SOURCE_DYNAMIC_DEFAULT_BROKER,
    SOURCE_GROUP,
    SOURCE_STATIC_BROKER,
    SOURCE_TOPIC,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    AlterConfig,
    AlterConfigsReply,
    AlterResource,
    ConfigResource,
    ConfigValue,
    DescribeConfigsReply,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from groupd.coordinator.cli.kafka.cluster import KafkaCluster
    from groupd.coordinator.cli.kafka.connection import BlockingConnection

ENTITIES = ("topic", "group", "broker")
SEEN_WITHIN_S = 5.0
"""How long a Kafka broker may take to learn of a change from the controller."""
POLL_S = 0.05
SECRET = "(secret)"
_SET, _DELETE = 0, 1
_SOURCES = {
    SOURCE_TOPIC: "topic",
    SOURCE_DYNAMIC_BROKER: "broker",
    SOURCE_DYNAMIC_DEFAULT_BROKER: "all brokers",
    SOURCE_STATIC_BROKER: "static",
    SOURCE_DEFAULT: "default",
    SOURCE_CLIENT_METRICS: "client metrics",
    SOURCE_GROUP: "group",
}
"""Words for the source of a value. "topic", "group" and "broker": it is set for this very entity.
"static": it is in the broker's file."""


app = typer.Typer(
    help="Settings of topics, groups and brokers, of a running daemon or of any Kafka cluster.",
    no_args_is_help=True,
)

EntityType = Annotated[
    str,
    typer.Option("--entity", help="topic, group or broker.", autocompletion=words(*ENTITIES)),
]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help='Its name; the id of a broker, or "" for all brokers.'),
]


class Entity(IntEnum):
    """The types of entities that have settings, with Kafka's codes."""

    TOPIC = RESOURCE_TOPIC
    BROKER = RESOURCE_BROKER
    GROUP = RESOURCE_GROUP


class ConfigPlace(Struct, frozen=True):
    """The topic, group or broker whose settings are meant, and its cluster."""

    entity: Entity
    name: str
    bootstrap: str
    command_config: Path | None

    @classmethod
    def parse(
        cls, entity: str, name: str, bootstrap: str, command_config: Path | None
    ) -> ConfigPlace:
        """Makes the place from flags. Raises UsageError."""
        one_of(entity, "--entity", tuple(one.name.lower() for one in Entity))
        found = Entity[entity.upper()]
        if found is Entity.BROKER and name and not (name.isascii() and name.isdecimal()):
            raise UsageError(f"{name}: must be the id of a broker, a number")
        if found is not Entity.BROKER and not name:
            raise UsageError(f"--entity {entity}: a name is needed")
        return cls(found, name, bootstrap, command_config)

    def connection(self, cluster: KafkaCluster) -> BlockingConnection:
        """A connection to the broker itself for a broker's settings, which only it knows
        completely; else to any broker."""
        if self.entity is not Entity.BROKER or not self.name:
            return cluster.any()
        address = cluster.brokers().get(int(self.name))
        if address is None:
            fail(f"no broker {self.name}")
        return cluster.at(address)

    @property
    def own_source(self) -> str:
        """The word for the source of values that are set for this entity."""
        if self.entity is Entity.BROKER and not self.name:
            return "all brokers"
        return self.entity.name.lower()

    def fields(self) -> dict[str, Any]:
        return {"entity": self.entity.name.lower(), "name": self.name}


@app.command()
def describe(
    name: Name,
    entity: EntityType,
    every: Annotated[
        bool, typer.Option("--all", help="Also settings that have their default.")
    ] = False,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Show the settings that do not have their default, and where each value comes from.

    The source is topic, group or broker if the value is set for this one, "all brokers" if it is
    set for all of them, and static if it is in the broker's own file or flags.

    Example: groupd configs describe --entity topic orders --all
    """
    place = ConfigPlace.parse(entity, name, bootstrap_server, command_config)
    as_json = is_json(output)
    with asked_cluster(place.bootstrap, place.command_config) as cluster:
        found = _settings(place, place.connection(cluster))
    shown = [one for _, one in sorted(found.items()) if every or one.source != SOURCE_DEFAULT]
    if as_json:
        for one in shown:
            told = {"key": one.name, "value": one.value, "source": _source(one)}
            json_line({**place.fields(), **told, "read_only": one.read_only})
    elif shown:
        rows = [(one.name, _text(one), _source(one)) for one in shown]
        table(("key", "value", "source"), rows, wide=wide)
    else:
        note("no settings but defaults; --all shows them")


@app.command("set")
def set_configs(
    name: Name,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="What to set.")],
    entity: EntityType,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Set values, and print what has changed. If one value is refused, none is set.

    Example: groupd configs set --entity topic orders retention.ms=86400000
    """
    place = ConfigPlace.parse(entity, name, bootstrap_server, command_config)
    wanted = dict(_pair(text) for text in settings)
    _change(place, wanted, as_json=is_json(output))


@app.command()
def delete(
    name: Name,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="What to delete.")],
    entity: EntityType,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Delete values, and print what has changed. The default or a broker's value holds again.

    Example: groupd configs delete --entity group billing consumer.session.timeout.ms
    """
    place = ConfigPlace.parse(entity, name, bootstrap_server, command_config)
    _change(place, dict.fromkeys(keys), as_json=is_json(output))


def _pair(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{text}: must be KEY=VALUE")
    return key.strip(), value


def _change(place: ConfigPlace, wanted: Mapping[str, str | None], *, as_json: bool) -> None:
    """Sets or deletes values, and prints each old and new value. Raises UsageError."""
    with asked_cluster(place.bootstrap, place.command_config) as cluster:
        connection = place.connection(cluster)
        before = _settings(place, connection)
        _alter(place, connection, wanted)
        after = _once_seen(place.own_source, partial(_settings, place, connection), wanted)
    for key in wanted:
        old, new = before.get(key), after.get(key)
        source = "-" if new is None else _source(new)
        if as_json:
            step = {"key": key, "from": old and old.value, "to": new and new.value}
            json_line({**place.fields(), **step, "source": source})
        else:
            print(f"{key}: {_text(old)} -> {_text(new)} ({source})")


def _settings(place: ConfigPlace, connection: BlockingConnection) -> dict[str, ConfigValue]:
    """Returns all settings by name."""
    asked = ConfigResource(place.entity, place.name)
    reply: DescribeConfigsReply = connection.call(DescribeConfigsRequest((asked,)))
    for one in reply.results:
        _check(place, one.error, one.error_message)
    return {setting.name: setting for one in reply.results for setting in one.configs}


def _alter(
    place: ConfigPlace, connection: BlockingConnection, wanted: Mapping[str, str | None]
) -> None:
    """Sets values, all or none. None deletes a value, so that the default or a broker's value
    holds."""
    changes = [
        AlterConfig(key, _DELETE if value is None else _SET, value) for key, value in wanted.items()
    ]
    resource = AlterResource(place.entity, place.name, tuple(changes))
    reply: AlterConfigsReply = connection.call(IncrementalAlterConfigsRequest((resource,)))
    for one in reply.results:
        _check(place, one.error, one.error_message)


def _check(place: ConfigPlace, error: ErrorCode, message: str | None) -> None:
    if error:
        what = f"{place.entity.name.lower()} {place.name or '(all)'}"
        fail(f"{what}: {message or error.name}")


def _once_seen(
    own_source: str, now: Callable[[], dict[str, ConfigValue]], wanted: Mapping[str, str | None]
) -> dict[str, ConfigValue]:
    """Returns the settings once the broker shows the change. After `SEEN_WITHIN_S`, prints a note
    and returns the settings as they are."""
    until = time.monotonic() + SEEN_WITHIN_S
    while True:
        found = now()
        late = [
            key for key, value in wanted.items() if not _is_seen(own_source, found.get(key), value)
        ]
        if not late:
            return found
        if time.monotonic() > until:
            note(f"written, but the broker does not show it yet: {', '.join(sorted(late))}")
            return found
        time.sleep(POLL_S)


def _is_seen(own_source: str, found: ConfigValue | None, wanted: str | None) -> bool:
    is_own = found is not None and _source(found) == own_source
    if found is None or wanted is None:
        return (wanted is None) and not is_own
    return is_own and (found.sensitive or found.value == wanted.strip())


def _source(setting: ConfigValue) -> str:
    return _SOURCES.get(setting.source, f"source {setting.source}")


def _text(setting: ConfigValue | None) -> str:
    if setting is None:
        return "-"
    if setting.value is None:
        return SECRET if setting.sensitive else "-"
    return setting.value
