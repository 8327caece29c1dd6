"""The pytest plugin: the fixtures `groupd`, `groupd_session` and `groupd_factory`, and the marker
`groupd`.

It is loaded in every pytest run of an environment that has groupd installed, so it imports nothing
of groupd before a test asks for a broker. The fixtures are ordinary ones: they work for plain
tests, for pytest-asyncio, for anyio, and in each worker of pytest-xdist.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Unpack

import pytest

if TYPE_CHECKING:
    from groupd.testing.harness import GroupCoordinator, GroupCoordinatorFactory, StartOptions

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

MARKER = (
    "groupd(topics=None, config=None, **options): what the broker of the fixture `groupd` is "
    "started with, as GroupCoordinator.start takes it"
)
SECTION = "groupd events"
RECORDING_SECTION = "groupd recordings"
NAME_MAX = 150
REPORT_MAX = 20_000
_BROKERS = pytest.StashKey[list["GroupCoordinator"]]()

_RECORDINGS = pytest.StashKey["Recordings"]()


class AsInstalled:
    """Finds the modules of groupd before pytest's import hook does.

    pytest rewrites the `assert`s of all packages of a distribution that has a plugin. So it would
    parse and compile each module of groupd in every run in which it cannot store the result.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("groupd.") else None


def pytest_addoption(parser: pytest.Parser) -> None:
    sys.meta_path.insert(0, AsInstalled)  # this hook is the first: conftests are not imported yet
    parser.getgroup("groupd").addoption(
        "--groupd-record",
        metavar="DIR",
        help="record the brokers of every test, and keep the recordings of those that fail",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


def pytest_unconfigure() -> None:
    if AsInstalled in sys.meta_path:
        sys.meta_path.remove(AsInstalled)


@pytest.fixture
def groupd_factory(request: pytest.FixtureRequest) -> Iterator[GroupCoordinatorFactory]:
    """Starts as many brokers as the test wants: `groupd_factory(topics={"orders": 6})`. At the end
    of the test all are checked and closed."""
    started = request.node.stash.setdefault(_BROKERS, [])
    recordings = Recordings.of(request.node)
    yield _starter(started, recordings)
    try:
        _end(started)
    except BaseException:
        recordings.keep()
        raise
    recordings.clear()


@pytest.fixture
def groupd(
    request: pytest.FixtureRequest, groupd_factory: GroupCoordinatorFactory
) -> GroupCoordinator:
    """A new broker, in memory, on a port of its own. The marker `groupd` sets its options."""
    from groupd.testing.calls import EXPECTED

    try:
        return groupd_factory(**_options(request.node))
    except (*EXPECTED, ValueError) as error:
        reason = f"the broker of {request.node.nodeid}: {error}"
    pytest.fail(reason, pytrace=False)  # no traceback: the line to correct is that of the marker


@pytest.fixture(scope="session")
def groupd_session(request: pytest.FixtureRequest) -> Iterator[GroupCoordinator]:
    """One broker for the whole session (of each xdist worker). Tests that share it should use
    topics and groups of their own. Its invariants are checked at the end."""
    started = request.session.stash.setdefault(_BROKERS, [])
    yield _starter(started, Recordings(None, ""))()
    _end(started)


# Not `wrapper=True`: pytest before 8 may run with a pluggy that has only the older form.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, None]:
    """Closes the test's clients while their event loops still exist."""
    for broker in _used_by(item):
        broker.close_clients()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Adds to the report of a failed test what happened in the groups of its brokers."""
    report: pytest.TestReport = (yield).get_result()
    if report.failed and call.when != "teardown":
        said = "" if call.excinfo is None else str(call.excinfo.value)
        for broker in _used_by(item):
            if history := _history(broker, said):
                report.sections.append((SECTION, history))
    if report.failed:
        kept = item.stash.get(_RECORDINGS, None)
        if kept is not None and kept.keep():
            report.sections.append((RECORDING_SECTION, kept.shown()))


def _options(node: pytest.Item) -> dict[str, Any]:
    """The options from all markers of the test. For each key the marker nearest to the test wins;
    topics and configs are merged."""
    from groupd.coordinator.faults.errors import WrongType
    from groupd.testing.arguments import check_arguments
    from groupd.testing.harness import START

    options: dict[str, Any] = {"topics": {}, "config": {}}
    for marker in reversed(list(node.iter_markers("groupd"))):
        if marker.args:
            raise WrongType("the marker groupd takes keywords only")
        check_arguments(START, (), marker.kwargs)
        for key, value in marker.kwargs.items():
            merges = key in ("topics", "config")
            options[key] = {**options[key], **(value or {})} if merges else value
    return options


class Recordings:
    """The recordings of one test's brokers. If `directory` is None, nothing is recorded."""

    def __init__(self, directory: Path | None, name: str) -> None:
        self._directory = directory
        self._name = name
        self._paths: list[Path] = []
        self._kept = False

    @classmethod
    def of(cls, item: pytest.Item) -> Recordings:
        # None if the plugin was registered too late to add options.
        directory = item.config.getoption("groupd_record", None)
        name = re.sub(r"[^\w.=-]+", "_", item.nodeid)[-NAME_MAX:]
        made = cls(None if directory is None else Path(directory).absolute(), name)
        return item.stash.setdefault(_RECORDINGS, made)

    def next(self) -> Path | None:
        """The path of the recording of the next broker; None if nothing is recorded."""
        if self._directory is None:
            return None
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{self._name}-{len(self._paths) + 1}.jsonl"
        path.unlink(missing_ok=True)  # left over from an earlier run
        self._paths.append(path)
        return path

    def keep(self) -> bool:
        """Keep the files, as the test has failed. Returns whether there are any."""
        self._kept = True
        return bool(self._paths)

    def clear(self) -> None:
        """Delete the files unless they are to be kept; the brokers are closed by now."""
        if not self._kept:
            for path in self._paths:
                path.unlink(missing_ok=True)

    def shown(self) -> str:
        return "\n".join(f"groupd replay {path}" for path in self._paths)


def _starter(started: list[GroupCoordinator], recordings: Recordings) -> GroupCoordinatorFactory:
    def start(
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        **options: Unpack[StartOptions],
    ) -> GroupCoordinator:
        from groupd.testing.arguments import check_arguments
        from groupd.testing.harness import START, GroupCoordinator

        check_arguments(START, (topics, config), options)
        if options.get("record") is None:
            options["record"] = recordings.next()
        broker = GroupCoordinator.start(topics, config, **options)
        started.append(broker)
        return broker

    return start


def _end(started: list[GroupCoordinator]) -> None:
    """Check and close all brokers; the first violation fails the test."""
    violations: list[str] = []
    for broker in started:
        try:
            if not broker.closed:
                broker.check()
        except AssertionError as violation:
            violations.append(f"{type(violation).__name__}: {violation}")
        finally:
            broker.close()
    started.clear()
    if violations:
        pytest.fail(violations[0], pytrace=False)


def _used_by(item: pytest.Item) -> list[GroupCoordinator]:
    own = item.stash.get(_BROKERS, [])
    shared = getattr(item, "funcargs", {}).get("groupd_session")
    return [*own, *([shared] if shared is not None else [])]


def _history(broker: GroupCoordinator, said: str) -> str:
    """The events of the broker's groups as text, without the lines of the error message `said`."""
    if broker.closed:
        return ""
    shown = set(said.splitlines())
    text = "\n".join(line for line in broker.report().splitlines() if line not in shown)
    if all(not line.startswith(" ") for line in text.splitlines()):
        return ""  # it has only the names of groups
    return text if len(text) <= REPORT_MAX else "...\n" + text[-REPORT_MAX:]
