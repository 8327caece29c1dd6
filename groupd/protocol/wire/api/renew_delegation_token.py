"""RenewDelegationToken (39), v1-2."""

from __future__ import annotations

from groupd.protocol.messages.delegation_tokens import RenewDelegationTokenRequest
from groupd.protocol.wire.delegation_token_fields import expiry_api

API = expiry_api(39, RenewDelegationTokenRequest)
