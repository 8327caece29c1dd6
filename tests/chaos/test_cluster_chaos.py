"""Chaos with a cluster: each event once; `make chaos-cluster SECONDS=1800` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.cluster.chaos import RECORDS_PER_S, ClusterChaos
from tests.chaos.cluster.events import KINDS

pytestmark = pytest.mark.crash


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_whatever_happens_to_the_nodes(tmp_path: Path) -> None:
    chaos = ClusterChaos(tmp_path, 11, ("confluent", "franz"))
    try:
        chaos.run(0)
    except AssertionError as error:
        error.add_note(chaos.logs())
        raise
    finally:
        chaos.close()
    # Otherwise it has shown little.
    assert set(chaos.happened) == set(KINDS)
    assert len(chaos.ledger.commits) > 250
    assert chaos.ledger.fetches > 250
    assert chaos.given > 4 * RECORDS_PER_S
