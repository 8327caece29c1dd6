"""What a backend must offer; names of a scenario and on the wire; what one command led to."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.support.kio_entities import Plain

GENERATED = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
"""What a coordinator appends to a client or instance id."""

_numbers = itertools.count(1)


@dataclass(slots=True)
class Ticket:
    """One request that was sent. `reply`: None until it is answered. `with_text`: the text of an
    error is compared, too."""

    label: str
    actor: str
    api: str
    version: int
    fields: Mapping[str, Any]
    reply: Plain | None = None
    shown: bool = False
    with_text: bool = False


class Backend(Protocol):
    """Sends requests as plain data (`kio_entities`), each actor over a connection of its own."""

    kind: str
    names: Names

    def send(self, ticket: Ticket, *, parked: bool) -> None:
        """Sends it and returns once it is answered, or does not seem to be. `parked`: no answer is
        expected yet."""
        ...

    def wait(self, ticket: Ticket) -> None:
        """Waits until `ticket` is answered, or gives up after far too long."""
        ...

    def poll(self, ticket: Ticket) -> None:
        """Takes the answer if it is there."""
        ...

    def disconnect(self, actor: str) -> None: ...

    def create_topic(self, name: str, partitions: int) -> None: ...

    def grow_topic(self, name: str, partitions: int) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def advance(self, ms: int) -> None: ...

    def control(self, verb: str, words: list[str]) -> list[str]:
        """Does what only the core can show; the lines to print."""
        ...

    def inner(self) -> list[str]:
        """Records and events since the last call, without the `+ `."""
        ...

    def finish(self) -> None:
        """The scenario is over."""
        ...


@dataclass(slots=True)
class Names:
    """Scenario names <-> names on the wire. A shared broker needs unique groups and topics:
    `prefix` stands in front of them and keeps their order. Members are called by aliases."""

    prefix: str = ""
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    old_topics: dict[bytes, str] = field(default_factory=dict)
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """(producer id, epoch) by alias."""
    offsets_partitions: int = 1

    def out(self, name: str) -> str:
        """The name of a group or topic on the wire."""
        return self.prefix + name if name.strip() else name

    def back(self, name: str) -> str:
        return name.removeprefix(self.prefix)

    def back_in(self, text: str) -> str:
        """A text that mentions groups or topics, with the names of the scenario."""
        return text.replace(self.prefix, "") if self.prefix else text

    def producer(self, alias: str) -> tuple[int, int]:
        """(producer id, epoch) of an alias. If it has not asked for any, those of a producer that
        nobody knows."""
        return self.producers.get(alias, (999_999, 0))

    def regex_out(self, regex: str) -> str:
        return f"{self.prefix}({regex})" if self.prefix and regex else regex

    def regex_back(self, regex: str) -> str:
        if self.prefix and regex.startswith(self.prefix):
            return regex[len(self.prefix) + 1 : -1]
        return regex

    def new_topic(self, name: str, topic_id: bytes) -> None:
        self.topic_ids[name] = topic_id
        self.old_topics[topic_id] = name

    def topic_id(self, name: str) -> bytes:
        """`foo`, or `0` for the zero id, or any other word for an id that is nobody's."""
        if name == "0":
            return bytes(16)
        return self.topic_ids.get(name, b"\x77" * 16)

    def topic_of(self, topic_id: bytes) -> str:
        return self.old_topics.get(topic_id, "?" + topic_id.hex())

    def member(self, alias: str) -> str:
        return self.members.get(alias, alias)

    def alias(self, member_id: str | None) -> str:
        """The alias of a member id. If no alias is bound to it: what stands before its UUID, which
        is the client or instance id, or else the id itself."""
        if not member_id:
            return '""' if member_id == "" else "null"
        for alias, bound in self.members.items():
            if bound == member_id:
                return alias
        return GENERATED.sub("", member_id)


def unique_prefix() -> str:
    """A new one for every scenario that runs in this process."""
    return f"s{next(_numbers):03d}-"
