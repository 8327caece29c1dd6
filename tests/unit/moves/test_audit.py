"""With an authorizer the requests of clients are audited, and an operator's moves only once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.host import Host
from groupd.coordinator.log_limits import bounded
from groupd.coordinator.moves.mover import write_reset
from groupd.coordinator.moves.own_broker import OwnBroker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.security.audit import PLACES_MAX, Audit
from groupd.storage.log import StoredTopic
from groupd.storage.memory import MemoryStore
from tests.support.manual_clock import ManualClock
from tests.support.parts import loaded
from tests.unit.moves.harness import BY, GROUP
from tests.unit.security.world import TOPIC_ID

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_no_line_is_so_long_that_the_log_cuts_it_off() -> None:
    offsets = {10**6 + number: 2**63 - 1 for number in range(3 * PLACES_MAX)}
    audit = Audit()
    with capture_logs() as lines:
        audit.offsets_moved(BY, "g" * 249, "t" * 249, offsets)
        audit.offsets_deleted(BY, "g" * 249, "t" * 249, list(offsets))
    assert len(lines) == 6
    for line in lines:
        whole = bounded(None, "info", line)
        found = whole.get("offsets") or whole["partitions"]
        assert len(found) == PLACES_MAX
        assert "..." not in str(whole)


@pytest.mark.parametrize("authorizer", ["", AUTHORIZER], ids=["without", "with-authorizer"])
async def test_every_move_has_one_line(authorizer: str) -> None:
    config = CoordinatorConfig(offsets_topic_num_partitions=1, authorizer_class_name=authorizer)
    store = MemoryStore()
    await store.start()
    await store.put_topic(StoredTopic(TOPIC_ID, "foo", 1, ()))
    parts = await loaded(config, Host(), ManualClock(), store)
    own = OwnBroker(parts.broker, store, parts.log_ends, LongWork(), parts.security.audit)
    shard = parts.broker.own_shard_of(GROUP)
    assert shard is not None
    group = own.group(shard, GROUP, BY)
    offsets = (None, 7, 3, 7, None)
    with capture_logs() as lines:
        for before, after in pairwise(offsets):
            await write_reset(group, {("foo", 0): (before, after)})
    found = [(line["event"], line.get("offsets")) for line in lines if line.get("log") == "audit"]
    assert found == [
        ("offsets reset", {0: 7}),
        ("offsets reset", {0: 3}),
        ("offsets reset", {0: 7}),
        ("offsets deleted", None),
    ]
    await parts.broker.close()
    await parts.data_plane.close()
    await store.close()
