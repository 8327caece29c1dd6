"""What a broker knows about its clients and their rights, as one object.

`access` answers who may do what. `handlers` answer the requests that change it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.types import Access, DataHandler, RequestContext
from groupd.coordinator.security.delegation_tokens import delegation_token_handlers
from groupd.coordinator.security.quota_requests import QuotaRequests, load_quotas
from groupd.coordinator.security.quotas import Quotas
from groupd.coordinator.security.sasl_requests import SASL_HANDLERS
from groupd.coordinator.security.user_requests import UserRequests
from groupd.coordinator.security.users import Turn, Users
from groupd.storage.log import Catalogue

log = structlog.get_logger("groupd.audit")


class Security:
    """Of one broker. `load` before the first question. `turn`: waits for the next turn of long
    work. `now_ms`: the broker's clock."""

    def __init__(
        self, config: CoordinatorConfig, store: Catalogue, turn: Turn, now_ms: Callable[[], int]
    ) -> None:
        self._config = config
        self._store = store
        self._turn = turn
        self.users = Users(store, config.scram_users_max, turn)
        self.quotas = Quotas(config, now_ms)
        self._quota_requests = QuotaRequests(
            store, self.quotas, config.quotas_max, turn, _log_quota
        )

    async def load(self) -> None:
        """Read ACLs, users and quotas. Raises LogError."""
        await self.users.load()
        await load_quotas(self._store, self.quotas)

    def access(self, principal: str, host: str) -> Access:
        """What `principal` may do from `host`, an address in Kafka's form "/127.0.0.1"."""
        return Unrestricted(principal)

    @property
    def handlers(self) -> Mapping[type, DataHandler]:
        """By type of request."""
        return {
            **SASL_HANDLERS,
            **UserRequests(self.users, _log_change, self._turn).handlers,
            **delegation_token_handlers(self._turn),
            **self._quota_requests.handlers,
        }


def _log_change(by: RequestContext, user: str, mechanism: str, *, deleted: bool) -> None:
    event = "user's credential deleted" if deleted else "user's credential set"
    log.info(event, principal=by.principal, client=by.client_host, user=user, mechanism=mechanism)


def _log_quota(by: RequestContext, entity: str, key: str, value: float | None) -> None:
    event = "quota removed" if value is None else "quota set"
    log.info(
        event, principal=by.principal, client=by.client_host, entity=entity, key=key, value=value
    )


class Unrestricted(Access):
    """Everything, in the name of `principal`: there is no authoriser."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
