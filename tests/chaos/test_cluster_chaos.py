"""Chaos with a cluster, a short version; `make chaos-cluster SECONDS=1800` is the long one.

GROUPD_CLUSTER_CHAOS_SECONDS sets the time here.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.cluster.chaos import RECORDS_PER_S, ClusterChaos
from tests.chaos.cluster.events import KINDS

pytestmark = pytest.mark.crash

SECONDS = float(os.environ.get("GROUPD_CLUSTER_CHAOS_SECONDS", "120"))


@pytest.mark.timeout(SECONDS + 600)
def test_nothing_acknowledged_is_lost_whatever_happens_to_the_nodes(tmp_path: Path) -> None:
    chaos = ClusterChaos(tmp_path, 11, ("confluent", "franz"))
    try:
        chaos.run(SECONDS)
    except AssertionError as error:
        error.add_note(chaos.logs())
        raise
    finally:
        chaos.close()
    # Otherwise it has shown little.
    assert set(chaos.happened) == set(KINDS)
    assert len(chaos.ledger.commits) > 500
    assert chaos.ledger.fetches > 500
    assert chaos.given > SECONDS * RECORDS_PER_S / 10
