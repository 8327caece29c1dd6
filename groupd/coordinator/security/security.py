"""All that a broker knows about its clients and their rights, as one object. `access` answers who
may do what. `handlers` answer the requests that change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import Turn
from groupd.coordinator.core.types import Access, DataHandler, RequestContext
from groupd.coordinator.security.acl_requests import AclRequests
from groupd.coordinator.security.audit import Audit
from groupd.coordinator.security.authorizer import Authorizer
from groupd.coordinator.security.delegation_tokens import delegation_token_handlers
from groupd.coordinator.security.quota_requests import QuotaRequests
from groupd.coordinator.security.quotas import Quotas
from groupd.coordinator.security.user_requests import UserRequests
from groupd.coordinator.security.users import Users
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from groupd.storage.log import Catalogue

# SaslHandshake (17) and SaslAuthenticate (36) on a connection whose client is known.
#
# While a client still has to log in, these requests go to the authenticator of its connection
# instead.


async def no_login_here(context: RequestContext, request: object) -> None:
    """Refuses a login, because the client is known already, or because the listener has no SASL
    (`docs/spec/security.md#2.2`). Raises ApiError."""
    raise ApiError(
        ErrorCode.ILLEGAL_SASL_STATE,
        "No authentication is under way here: the client is known, or the listener has no SASL.",
    )


SASL_HANDLERS: Mapping[type, DataHandler] = {
    SaslHandshakeRequest: no_login_here,
    SaslAuthenticateRequest: no_login_here,
}


class Security:
    """The clients of one broker and their rights. Call `load` before the first check. `turn()`
    waits for the next turn of long work. `now_ms()`: the broker's clock. `changes`: all changes of
    the catalogue go through it; by default those of a node without a cluster."""

    def __init__(
        self,
        config: CoordinatorConfig,
        store: Catalogue,
        turn: Turn,
        now_ms: Callable[[], int],
        changes: CatalogueChanges | None = None,
    ) -> None:
        changes = changes or CatalogueChanges()
        self._turn = turn
        self.audit = Audit()
        self.authorizer = Authorizer(config, self.audit)
        self.users = Users(store, changes, config.scram_users_max, turn)
        self.quotas = Quotas(now_ms)
        self._acls = AclRequests(self.authorizer, store, changes, turn, config.acls_max)
        self._quota_requests = QuotaRequests(
            store, changes, self.quotas, config.quotas_max, turn, self.audit.quota_changed
        )

    async def load(self) -> None:
        """Reads ACLs, users and quotas. Raises LogError."""
        self.audit.look_at_level()
        await self._acls.load()
        await self.users.load()
        await self._quota_requests.load()

    def access(self, principal: str, host: str) -> Access:
        """What `principal` may do from `host`, an address in Kafka's form "/127.0.0.1"."""
        return self.authorizer.access(principal, host)

    @property
    def handlers(self) -> Mapping[type, DataHandler]:
        """The handlers by type of request."""
        return {
            **SASL_HANDLERS,
            **self._acls.handlers,
            **UserRequests(self.users, self.audit, self._turn).handlers,
            **delegation_token_handlers(self._turn),
            **self._quota_requests.handlers,
        }
