"""What a broker knows about its clients and their rights, as one object.

`access` answers who may do what. `handlers` answer the requests that change it.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.types import Access, DataHandler
from groupd.coordinator.security.sasl_requests import SASL_HANDLERS
from groupd.storage.log import Catalogue


class Security:
    """Of one broker. `load` before the first question."""

    def __init__(self, config: CoordinatorConfig, store: Catalogue) -> None:
        self._config = config
        self._store = store

    async def load(self) -> None:
        """Read ACLs, users and quotas. Raises LogError."""

    def access(self, principal: str, host: str) -> Access:
        """What `principal` may do from `host`, an address in Kafka's form "/127.0.0.1"."""
        return Unrestricted(principal)

    @property
    def handlers(self) -> Mapping[type, DataHandler]:
        """By type of request."""
        return {**SASL_HANDLERS}


class Unrestricted(Access):
    """Everything, in the name of `principal`: there is no authoriser."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
