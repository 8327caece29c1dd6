"""Calls of `GroupCoordinator` for the clients under test: their settings, users and ACLs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, cast

from groupd.testing.acl_rules import AclRule
from groupd.testing.arguments import check_arguments
from groupd.testing.client_security import as_properties, security_settings
from groupd.testing.client_settings import (
    CLASSIC,
    DEFAULT_LIBRARY,
    LIBRARIES,
    GroupProtocol,
    Role,
    client_config,
)
from groupd.testing.security import TOKEN_LIFETIME_S, Mechanism

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class ClientCalls:
    """Each method is described at the method of the same name in `Operations`."""

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    @property
    def bootstrap_servers(self) -> str:
        raise NotImplementedError

    def client_config(
        self,
        library: str,
        *,
        user: str | None = None,
        mechanism: Mechanism | None = None,
        protocol: GroupProtocol = CLASSIC,
        role: Role = "consumer",
    ) -> dict[str, Any]:
        """Settings for a client in tests: `Consumer(c.client_config("confluent-kafka") | {...})`.
        docs/testing.md lists the libraries, and their settings with the reasons.

        `user`, `mechanism`: how the client logs in. In place of a library the first argument may
        be a user, `c.client_config("billing")`; the library is confluent-kafka then."""
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
        --command-config. The other arguments are those of `client_config`."""
        return as_properties(self.client_config("java", user=user, **given))

    # Users and ACLs

    def users(self) -> list[str]:
        return cast("list[str]", self._call("users"))

    def add_user(self, name: str, password: str) -> None:
        self._call("add_user", name, password)

    def remove_user(self, name: str) -> None:
        self._call("remove_user", name)

    def token(self, user: str, lifetime_s: int = TOKEN_LIFETIME_S) -> str:
        return cast(str, self._call("token", user, lifetime_s))

    def acls(self) -> list[str]:
        return cast("list[str]", self._call("acls"))

    def add_acls(self, rules: Iterable[AclRule]) -> None:
        self._call("add_acls", list(rules))

    def remove_acls(self, rules: Iterable[AclRule]) -> None:
        self._call("remove_acls", list(rules))
