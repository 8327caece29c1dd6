"""Calls of `GroupCoordinator` for the clients under test: clients and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from groupd.coordinator.faults.errors import HarnessError, WrongType
from groupd.testing.arguments import check_arguments
from groupd.testing.calls import Call, Hinting, on_a_loop
from groupd.testing.client_security import as_properties, security_settings
from groupd.testing.client_settings import (
    CLASSIC,
    DEFAULT_LIBRARY,
    LIBRARIES,
    GroupProtocol,
    Role,
    client_config,
)
from groupd.testing.own_clients import OwnClients, library_for, spelled
from groupd.testing.security import Mechanism

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class ClientCalls(Hinting):
    """They raise HarnessError for unknown users and libraries."""

    _own_clients: OwnClients
    _call: Call

    @property
    def bootstrap_servers(self) -> str:
        raise NotImplementedError

    def consumer(
        self,
        group: str,
        *topics: str,
        library: str | None = None,
        protocol: GroupProtocol = CLASSIC,
        user: str | None = None,
        mechanism: Mechanism | None = None,
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """A consumer of the group that subscribes to `topics` and is closed at the end of the test.

        `library`: "confluent-kafka" or "aiokafka"; None = the first of them that is installed. A
        consumer of aiokafka is made in a coroutine, and started by `async with` or `await
        consumer.start()`. `protocol`: "classic" or "consumer". `user`, `mechanism`: how it logs in.

        It has the settings of `client_config`, and begins at the earliest record. Further settings
        are keywords, with underscores where confluent-kafka has dots, or a dictionary `settings`.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.consumer("billing", "orders", enable_auto_commit=False)
        >>> consumer.poll(10).value()
        b'coffee'

        >>> async def read():
        ...     async with groupd.consumer("audit", "orders", library="aiokafka") as consumer:
        ...         return (await consumer.getone()).value
        >>> asyncio.run(read())
        b'coffee'
        """
        check_arguments(ClientCalls.consumer, (group,), {"library": library})
        for topic in topics:
            if not isinstance(topic, str):
                raise WrongType(f"consumer(): topics are names, not {type(topic).__name__}")
        used = library_for(library)
        made = self.client_config(used, user=user, mechanism=mechanism, protocol=protocol)
        made |= spelled(used, {"group_id": group, "auto_offset_reset": "earliest"} | more)
        return self._own_clients.consumer(used, topics, made | dict(settings or {}))

    def producer(
        self,
        *,
        library: str | None = None,
        user: str | None = None,
        mechanism: Mechanism | None = None,
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """A producer that is flushed and closed at the end of the test; the arguments are those of
        `consumer`. To seed a topic, `produce` needs no client.

        >>> producer = groupd.producer(linger_ms=0)
        >>> producer.produce("orders", b"coffee")
        >>> producer.flush(10)
        0
        """
        used = library_for(library)
        made = self.client_config(used, user=user, mechanism=mechanism, role="producer")
        made |= spelled(used, more) | dict(settings or {})
        return self._own_clients.producer(used, made)

    def close_clients(self) -> None:
        """Close the clients of `consumer` and `producer` now, not at the end of the test. Faults
        are removed first: a client that waits for an answer does not close.

        >>> consumer = groupd.consumer("billing", "orders")
        >>> groupd.close_clients()
        """
        if self._own_clients.any_open:
            with suppress(HarnessError):  # a broker whose process is gone has no faults
                self._call("remove_faults")
                self._call("release_appends")
            self._own_clients.close()
        if not on_a_loop():
            self._own_clients.close_on_loops()

    def client_config(
        self,
        library: str,
        *,
        user: str | None = None,
        mechanism: Mechanism | None = None,
        protocol: GroupProtocol = CLASSIC,
        role: Role = "consumer",
    ) -> dict[str, Any]:
        """Settings for a client in tests, such as the code under test makes. docs/testing.md lists
        the libraries, and their settings with the reasons.

        `user`, `mechanism`: how the client logs in. In place of a library the first argument may
        be a user, `client_config("billing")`; the library is confluent-kafka then.

        >>> consumer = Consumer(groupd.client_config("confluent-kafka") | {"group.id": "billing"})
        >>> groupd.client_config("aiokafka", role="producer")
        {'bootstrap_servers': '127.0.0.1:...', 'retry_backoff_ms': 20}
        """
        given = {"user": user, "mechanism": mechanism, "protocol": protocol, "role": role}
        check_arguments(ClientCalls.client_config, (library,), given)
        if user is None and library not in LIBRARIES and library in self._call("users"):
            library, user = DEFAULT_LIBRARY, library
        made = client_config(library, self.bootstrap_servers, protocol=protocol, role=role)
        login = self._call("login", user, mechanism)
        token = partial(self._call, "token", user)
        token_file = partial(self._call, "token_file", user)
        return made | security_settings(library, login, token, token_file)

    def client_properties(self, user: str | None = None, **given: Any) -> str:
        """The text of a `.properties` file for the Java client, and for Kafka's tools with
        --command-config. The other arguments are those of `client_config`.

        >>> print(groupd.client_properties(role="producer"))
        bootstrap.servers=127.0.0.1:...
        """
        return as_properties(self.client_config("java", user=user, **given))
