"""Exactly once under chaos, a short version; `make chaos` makes two minutes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.chaos import KINDS, Chaos
from tests.clients.exactly_once import CLIENTS

pytestmark = pytest.mark.crash

SECONDS = 10.0


@pytest.mark.timeout(SECONDS + 900)
@pytest.mark.parametrize(
    ("protocol", "version"),
    [("consumer", "2"), ("classic", "1")],
    ids=["KIP-848-TV2", "classic-TV1"],
)
def test_every_record_once_whoever_is_killed(tmp_path: Path, protocol: str, version: str) -> None:
    chaos = Chaos(tmp_path, 11, CLIENTS, protocol, {"groupd.transaction.version": version})
    try:
        chaos.run(SECONDS)
    except AssertionError as error:
        error.add_note(chaos.logs())
        raise
    finally:
        chaos.close()
    # Otherwise it has shown little.
    assert chaos.written == chaos.given > 1_000
    assert set(chaos.happened) == set(KINDS)
