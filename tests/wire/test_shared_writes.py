"""Requests take effect one after the other, and yet those of one lane are written together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.daemon import Daemon
from tests.support.metrics import samples
from tests.support.peer import running
from tests.support.process import wait_until
from tests.support.wire_client import Request, WireClient
from tests.support.wire_requests import commit, fetch_offset, fetched, list_offsets, produce

COUNT = 60
TOGETHER_MIN = 10
"""At least this many requests are written together on average."""
TRIES = 5
"""A busy machine starts a few requests in each turn of the loop, and the first ones are written
before the last ones start. So one try of these must succeed."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(Daemon(tmp_path_factory.mktemp("daemon"), topics={"t": 1})) as made:
        yield made


def writes(daemon: Daemon) -> float:
    (found,) = samples(daemon.admin_url, "groupd_log_transactions_total")
    return found.value


def written(daemon: Daemon, requests: list[Request]) -> float:
    """In how many transactions of the store the requests were written."""
    with WireClient(daemon.host, daemon.port) as client:
        api, version, fields = fetch_offset("t")
        wait_until(
            lambda: fetched(client.call(api, version, **fields))[1] == 0, 30, "the group's shard"
        )
        before = writes(daemon)
        client.pipeline(requests)
        return writes(daemon) - before


@pytest.mark.parametrize("kind", ["commits", "produces", "commits and fetches"])
def test_pipelined_requests_share_transactions(daemon: Daemon, kind: str) -> None:
    commits = [commit("t", offset) for offset in range(COUNT)]
    requests = {
        "commits": commits,
        "produces": [produce("t")] * COUNT,
        "commits and fetches": [one for each in commits for one in (each, fetch_offset("t"))],
    }[kind]
    assert 1 <= min(written(daemon, requests) for _ in range(TRIES)) <= COUNT / TOGETHER_MIN


def test_what_reads_in_between_keeps_them_apart(daemon: Daemon) -> None:
    requests = [one for _ in range(COUNT) for one in (produce("t"), list_offsets("t", -1))]
    assert written(daemon, requests) == COUNT
