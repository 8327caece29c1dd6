import pytest

from tests.unit.offsets.harness import Shard


@pytest.fixture
def shard() -> Shard:
    return Shard()
