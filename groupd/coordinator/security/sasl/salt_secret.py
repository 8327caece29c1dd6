"""The secret from which the salts of unknown users are made. It is kept in the store, so that these
salts stay the same after a restart, as those of known users do (`docs/spec/security.md#2.3`), and
are the same on all nodes of a cluster."""

from __future__ import annotations

import secrets

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.storage.log import Catalogue, LogCorrupt, SecurityEntry

KIND, KEY = "secret", "scram-salts"
_BYTES = 32


async def salt_secret(store: Catalogue, changes: CatalogueChanges) -> bytes:
    """The secret, which is made when it is first asked for. Raises LogError."""

    async def change() -> str:
        found = dict(await store.security_entries(KIND)).get(KEY)
        if found is None:
            found = secrets.token_hex(_BYTES)
            await store.change_security([SecurityEntry(KIND, KEY, found)])
        return found

    try:
        return bytes.fromhex(await changes.make(change))
    except ValueError:
        raise LogCorrupt("the secret for salts is no hexadecimal number") from None
