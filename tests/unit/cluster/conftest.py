from __future__ import annotations

from tests.unit.cluster.fake_nodes import world as world
