"""Every request of a client is answered in one place."""

from __future__ import annotations

import inspect

from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.topics.requests import data_routes
from groupd.protocol.messages import cluster as cluster_messages
from groupd.protocol.messages import (
    data,
    producers,
    quorum,
    replicas,
    telemetry,
    topics,
)
from tests.unit.transactions.harness import Bench

MESSAGES = (cluster_messages, data, producers, quorum, replicas, telemetry, topics)


async def test_a_request_has_one_handler(cluster):
    tables = (ROUTES, data_routes(cluster.plane), Bench().handlers)
    handled = [request for table in tables for request in table]
    assert len(handled) == len(set(handled))


async def test_all_requests_about_topics_are_handled(cluster):
    handled = data_routes(cluster.plane).keys() | Bench().handlers.keys()
    for messages in MESSAGES:
        requests = {
            found
            for name, found in inspect.getmembers(messages, inspect.isclass)
            if name.endswith("Request") and found.__module__ == messages.__name__
        }
        # A connection answers ApiVersions by itself.
        assert requests - {cluster_messages.ApiVersionsRequest} <= handled
