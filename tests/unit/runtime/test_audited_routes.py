"""A commit by a client that is no member is written to the audit log with what it has changed, also
if the front end has refused a part of it, or all."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.runtime.audited_routes import audited
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.security.audit import Audit
from groupd.protocol.messages.offsets import CommitPartition, OffsetCommitRequest, commit_topic
from tests.unit.runtime.harness import Bench


@pytest.mark.parametrize(
    ("topics", "errors", "written"),
    [
        ({"t": {0: 5}}, [0], [{0: 5}]),
        ({"t": {0: 5}, "unknown": {0: 6}}, [3, 0], [{0: 5}]),
        ({"t": {0: 5, 99: 7}}, [3, 0], [{0: 5}]),
        ({"unknown": {0: 6}}, [3], []),
    ],
    ids=["all good", "an unknown topic", "an unknown partition", "nothing good"],
)
async def test_a_reset(
    topics: dict[str, dict[int, int]], errors: list[int], written: list[Any]
) -> None:
    bench = await Bench().start()
    bench.broker._routes = audited(ROUTES, Audit())
    asked = [
        commit_topic(name, [CommitPartition(number, offset) for number, offset in of.items()])
        for name, of in topics.items()
    ]
    with capture_logs() as lines:
        reply = await bench.answer(OffsetCommitRequest("g", tuple(asked)), 9)
    assert [one.error for topic in reply.topics for one in topic.partitions] == errors
    assert [line["offsets"] for line in lines if line["event"] == "offsets reset"] == written
    assert not [line for line in lines if line["log_level"] == "error"]
    await bench.broker.close()
