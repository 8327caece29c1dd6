"""The campaign in short, and the kept streams; `make fuzz` takes as long as one likes.

What the honest client waits is printed, not asserted: this machine may have other things to do.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from groupd.protocol.wire.apis import API_BY_KEY
from tests.fuzz import guide
from tests.fuzz.campaign import Campaign, Plan
from tests.fuzz.figures import figures

pytestmark = pytest.mark.crash

SECONDS = 40.0
GUIDED = 0.25
GROWTH_BYTES = 64 << 20
"""How much memory groupd may take beyond what it has when the storm begins: the limits are low
(`tests.fuzz.limits`)."""


@pytest.mark.timeout(SECONDS + 600)
def test_se_94_hostile_bytes_hurt_nobody(tmp_path: Path) -> None:
    guided = GUIDED * SECONDS if guide.available() else 0.0
    plan = Plan(SECONDS - guided, connections=24, guided_seconds=guided)
    verdict = Campaign(plan, tmp_path).run(sys.stdout)
    print(figures(verdict))
    assert verdict.wrong == []
    assert verdict.honest_lost == []
    sizes = [size for _, size in verdict.resident]
    assert max(sizes) < sizes[0] + GROWTH_BYTES
    # Otherwise it has shown little.
    judged = {key for storm in verdict.storms for key in storm.keys}
    assert judged >= API_BY_KEY.keys()
    assert verdict.honest is not None
    assert verdict.honest.requests > SECONDS
