"""The file with the users that are made at the start."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path

import pytest

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.scram_credentials import MECHANISMS, credential, salted
from groupd.coordinator.security.users import FILE_BYTES_MAX, Users, first_users
from groupd.storage.memory import MemoryStore

SHA_256, SHA_512 = MECHANISMS["SCRAM-SHA-256"], MECHANISMS["SCRAM-SHA-512"]
SALTED = salted(SHA_512, "hush-hush", b"salt", 8192)


@pytest.fixture
async def users() -> Users:
    store = MemoryStore()
    await store.start()
    made = Users(store, CatalogueChanges(), 3, lambda: asyncio.sleep(0))
    await made.load()
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.touch(0o600)
    return path


async def test_users_of_a_file(users: Users, file: Path) -> None:
    file.write_text(
        "# The first ones.\n\n"
        '  SCRAM-SHA-256=[name=admin,password=hush=hush"]]\n'
        'SCRAM-SHA-256=[name="a,b",password="c,d=e",iterations=5000,salt=c2FsdA==]\n'
        f"SCRAM-SHA-512=[salt=c2FsdA==, iterations=8192, "
        f"saltedpassword={b64encode(SALTED).decode()}, name=admin]\n"
    )
    made = first_users(file, users)
    assert list(made) == [
        ("admin", "SCRAM-SHA-256"),
        ("a,b", "SCRAM-SHA-256"),
        ("admin", "SCRAM-SHA-512"),
    ]
    first, second, third = made.values()
    assert first.iterations == 4096
    assert first == credential(
        SHA_256, salted(SHA_256, 'hush=hush"]', first.salt, 4096), first.salt, 4096
    )
    assert second == credential(SHA_256, salted(SHA_256, "c,d=e", b"salt", 5000), b"salt", 5000)
    assert third == credential(SHA_512, SALTED, b"salt", 8192)


async def test_only_what_is_missing(users: Users, file: Path) -> None:
    """A password that was changed since the first start stays."""
    file.write_text("SCRAM-SHA-256=[name=admin,password=old]\n")
    await users.add(first_users(file, users))
    kept = users.credential("admin", "SCRAM-SHA-256")
    file.write_text(
        "SCRAM-SHA-256=[name=admin,password=new]\nSCRAM-SHA-512=[name=admin,password=new]\n"
    )
    added = first_users(file, users)
    assert list(added) == [("admin", "SCRAM-SHA-512")]
    await users.add(added)
    assert users.credential("admin", "SCRAM-SHA-256") == kept
    assert first_users(file, users) == {}


BAD = {
    "SCRAM-SHA-1=[name=x,password=hush]": "must be SCRAM-SHA-256 or SCRAM-SHA-512=[",
    "hush": "must be SCRAM-SHA-256 or SCRAM-SHA-512=[",
    "SCRAM-SHA-256=name=x,password=hush": "must be SCRAM-SHA-256 or SCRAM-SHA-512=[",
    "SCRAM-SHA-256=[password=hush]": "name is missing",
    "SCRAM-SHA-256=[name=x]": "either password or saltedpassword",
    "SCRAM-SHA-256=[name=x,password=hush,saltedpassword=hush]": "either password or salted",
    "SCRAM-SHA-256=[name=x,saltedpassword=aHVzaA==]": "without its salt",
    "SCRAM-SHA-256=[name=x,saltedpassword=aHVzaA==,salt=hush!]": "salt is not base64",
    "SCRAM-SHA-256=[name=x,saltedpassword=aHVzaA==,salt=aHVzaA==]": "must have 32 bytes",
    "SCRAM-SHA-256=[name=x,password=]": "the password is empty",
    "SCRAM-SHA-256=[name=,password=hush]": "Username must not be empty",
    "SCRAM-SHA-256=[name=x,password=hush,iterations=4095]": "Too few iterations",
    "SCRAM-SHA-256=[name=x,password=hush,iterations=16385]": "Too many iterations",
    "SCRAM-SHA-256=[name=x,password=hush,iterations=hush]": "iterations must be a number",
    "SCRAM-SHA-256=[name=x,password=hush,hush=1]": "between the brackets",
    "SCRAM-SHA-256=[name=x,password=a,hush]": "between the brackets",
    "SCRAM-SHA-256=[name=x,name=hush,password=a]": "name is there twice",
    "SCRAM-SHA-256=[name=ok,password=hush]": "stand in a line before",
}


@pytest.mark.parametrize("line", BAD)
async def test_bad_lines(users: Users, file: Path, line: str) -> None:
    """The error says which line, and shows nothing of it."""
    file.write_text(f"SCRAM-SHA-256=[name=ok,password=hush]\n\n{line}\n")
    with pytest.raises(ConfigError) as refused:
        first_users(file, users)
    message = str(refused.value)
    assert message.startswith(f"groupd.scram.users.file={file}: line 3: ")
    assert BAD[line] in message
    assert "hush" not in message.replace(str(file), "")
    assert refused.value.__cause__ is None
    assert "\n" not in message


async def test_files_that_cannot_be_used(users: Users, file: Path) -> None:
    def why(path: Path) -> str:
        with pytest.raises(ConfigError) as refused:
            first_users(path, users)
        return str(refused.value)

    assert "No such file" in why(file.with_name("none"))
    assert "Is a directory" in why(_private(file.parent / "directory"))
    file.write_bytes(b"\xff")
    assert "is not UTF-8" in why(file)
    file.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    assert "more than" in why(file)
    file.write_text("".join(f"SCRAM-SHA-256=[name=u{n},password=p]\n" for n in range(4)))
    assert "more users than there may be" in why(file)
    file.chmod(0o604)
    assert "every user of this machine may read it" in why(file)


def _private(directory: Path) -> Path:
    directory.mkdir(0o700)
    return directory
