"""Real clients of a broker that stands still for longer than their sessions: nobody is fenced.

Not here: librdkafka in classic groups. When it has had no answer for a session it forgets its
member id and joins anew, and what it was is fenced a session later."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.clients.conftest import GroupMaker
from tests.clients.group import BY_NAME
from tests.support.admin import create_topics, produce
from tests.support.daemon import Daemon
from tests.support.peer import SESSION_TIMEOUT_MS, peer_kind
from tests.support.raw_member import admin_json

PAUSE_S = 2 * SESSION_TIMEOUT_MS / 1000
FLAVOURS = ("java-classic-range", "java-consumer-uniform", "confluent-consumer-uniform")
TOPIC = {"paused": 6}

pytestmark = pytest.mark.skipif(peer_kind() != "groupd", reason="a rule of groupd")


def fenced(daemon: Daemon, group: str) -> list[object]:
    events = admin_json(daemon, f"/groups/{group}/events")
    return [event for event in events if event["event"] == "member-fenced"]


def test_nobody_is_fenced(peer: Daemon, make_group: GroupMaker) -> None:
    create_topics(peer.bootstrap, TOPIC)
    groups = [make_group(BY_NAME[name]) for name in FLAVOURS]
    for group in groups:
        group.spawn(TOPIC, members=2, commit="each")
    for group in groups:
        group.wait_covered(TOPIC, [0, 1])
    os.kill(peer.pid, signal.SIGSTOP)
    time.sleep(PAUSE_S)
    os.kill(peer.pid, signal.SIGCONT)
    places = produce(peer.bootstrap, TOPIC, 60)
    for group in groups:
        group.wait_seen(places)
    # A member that could not come back would be fenced a session later.
    time.sleep(SESSION_TIMEOUT_MS / 1000)
    for group in groups:
        group.wait_covered(TOPIC, [0, 1])
        assert fenced(peer, group.group_id) == [], group.describe()
        assert len(admin_json(peer, f"/groups/{group.group_id}")["members"]) == 2
