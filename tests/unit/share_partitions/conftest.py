from __future__ import annotations

import pytest

from tests.unit.share_partitions.share_world import ShareWorld


@pytest.fixture
async def world():
    made = await ShareWorld().start()
    yield made
    made.persister.released.set()
    await made.stop()


@pytest.fixture
async def foo(world):
    """The topic id of `foo`, with three partitions that the group reads from the beginning."""
    await world.set_configs(share_auto_offset_reset="earliest")
    return await world.create()
