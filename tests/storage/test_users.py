"""Users of SCRAM in every store."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.security.scram_credentials import MECHANISMS, ScramCredential, credential
from groupd.coordinator.security.users import Users
from tests.storage.conftest import Disk

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
HARD_NAMES = ["alice", "a:b=c,d", "ünïcode\n\t'\"%", "x" * 1000, "CN=a,O=b"]


async def users_in(disk: Disk) -> Users:
    users = Users(disk.store, CatalogueChanges(), 100, lambda: asyncio.sleep(0))
    await users.load()
    return users


def made(mechanism: str, password: bytes) -> ScramCredential:
    return credential(MECHANISMS[mechanism], password, b"\x00\xff salt", 4096)


@pytest.mark.parametrize("user", HARD_NAMES)
async def test_a_user_comes_back(disk: Disk, user: str) -> None:
    users = await users_in(disk)
    first, second = made(SHA_256, b"p"), made(SHA_512, b"q")
    for changes in (
        {(user, SHA_256): first, (user, SHA_512): second, ("x", SHA_256): first},
        {(user, SHA_256): made(SHA_256, b"r"), ("x", SHA_256): None},
    ):
        await users.changing(partial(users.change, changes))
    await disk.reopen()
    again = await users_in(disk)
    assert again.names() == [user]
    assert again.credentials(user) == {SHA_256: made(SHA_256, b"r"), SHA_512: second}
