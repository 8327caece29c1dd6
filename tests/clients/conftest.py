"""One peer a module (groupd, or Kafka with GROUPD_PEER=kafka), topics and groups for a test."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients.group import Flavour, Group
from tests.clients.kafka_tool_calls import Run
from tests.clients.share import ShareGroup
from tests.clients.tools import Said, Tools
from tests.support.admin import create_topics
from tests.support.daemon import Daemon
from tests.support.peer import Peer, make_peer, running
from tests.support.raw_member import admin_json

GroupMaker = Callable[[Flavour], Group]
TopicMaker = Callable[[Mapping[str, int]], dict[str, int]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.clients)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A started peer; it must stop cleanly at the end of the module."""
    with running(make_peer(tmp_path_factory.mktemp("peer"))) as made:
        yield made


@pytest.fixture
def unique() -> str:
    """A suffix that no other test uses: tests share the module's peer."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def topics(peer: Peer, unique: str) -> TopicMaker:
    """Creates topics under names of this test only: {"a": 6} -> {"a-1f3c...": 6}."""

    def make(counts: Mapping[str, int]) -> dict[str, int]:
        named = {f"{name}-{unique}": count for name, count in counts.items()}
        create_topics(peer.bootstrap, named)
        return named

    return make


def view_of(peer: Peer, group: str) -> str:
    """What the coordinator says of a group, for the message of a failed test."""
    if not isinstance(peer, Daemon):
        return ""
    try:
        return json.dumps(admin_json(peer, f"/groups/{group}"), indent=1)
    except OSError as error:
        return f"no view of the group: {error}"


@pytest.fixture
def make_group(peer: Peer, unique: str, tmp_path: Path) -> Iterator[GroupMaker]:
    """Makes groups whose processes are gone after the test."""
    groups: list[Group] = []

    def make(flavour: Flavour) -> Group:
        name = f"group-{flavour.name}-{unique}-{len(groups)}"
        groups.append(Group(flavour, peer.bootstrap, name, tmp_path, lambda: view_of(peer, name)))
        return groups[-1]

    yield make
    for group in groups:
        group.close()


@pytest.fixture
def share_group(peer: Peer, unique: str, tmp_path: Path) -> Iterator[ShareGroup]:
    """A new share group, whose processes are gone after the test."""
    made = ShareGroup(peer.bootstrap, f"share-{unique}", tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    made = Tools(tmp_path_factory.mktemp("tools"))
    yield made
    made.close()


@pytest.fixture
def run(tools: Tools, peer: Peer) -> Run:
    """Calls a tool, which must exit with `exit`."""

    def call(tool: str, *arguments: str, stdin: str = "", exits: int = 0) -> Said:
        said = tools.call(peer.bootstrap, tool, *arguments, stdin=stdin)
        assert said.exit == exits, f"{tool} {arguments}\n{said.out}\n{said.err}"
        return said

    return call
