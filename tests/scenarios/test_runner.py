"""The scenario runner itself: files, commands, payloads, and that a wrong expectation fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.runner import brokers
from tests.scenarios.runner.backend import Names
from tests.scenarios.runner.brokers import Brokers
from tests.scenarios.runner.command import (
    numbers_of,
    parse_command,
    partitions_of,
    show_numbers,
    show_partitions,
    split,
)
from tests.scenarios.runner.parser import ScenarioError, read_file, write_file
from tests.scenarios.runner.payloads import make_bytes, show_assignment, show_subscription
from tests.scenarios.runner.rewrite import UNEXPLAINED, rewrite
from tests.scenarios.runner.run import difference, files, run

SAMPLE = """\
=== CG-15 CG-16b the title
config: group.consumer.max.size=3
topics: foo=2
not: kafka -- a reason

# a comment
m1 HB(0) names=[foo]
----
m1 HB: epoch=7 {foo:0-1}

DESCRIBE nobody
----
DESCRIBE: nobody GROUP_ID_NOT_FOUND
---- kafka: another reason
DESCRIBE: something else
"""


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.scenario"
    path.write_text(SAMPLE)
    return path


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_files_are_as_the_rewriter_writes_them(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    write_file(copy, read_file(path))
    assert copy.read_text() == path.read_text()


def test_a_file_as_data(sample: Path) -> None:
    (scenario,) = read_file(sample)
    assert (scenario.slug, scenario.title) == ("CG-15+CG-16b", "the title")
    assert scenario.pairs("topics") == {"foo": "2"}
    assert scenario.excluded("kafka") == "a reason"
    assert scenario.excluded("tcp") is None
    assert scenario.blocks[1].variants["kafka"].reason == "another reason"
    assert [block.line for block in scenario.blocks] == [6, 11]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m1 HB(0)\n", "a block before"),
        ("=== no number\n", "scenario number"),
        ("=== CG-15 x\ncolour: red\n", "no option 'colour'"),
        ("=== CG-15 x\n\nDESCRIBE\n----\n---- kafka\n", "needs a reason"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.scenario"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message):
        read_file(path)


def test_a_wrong_expectation_fails_and_is_rewritten(sample: Path, tmp_path: Path) -> None:
    (scenario,) = read_file(sample)
    brokers = Brokers(tmp_path)
    first, second = run(scenario, "core", brokers)
    assert not first.passed
    assert second.passed
    shown = difference(scenario, "core", first)
    assert "sample.scenario:6" in shown
    assert "-m1 HB: epoch=7 {foo:0-1}\n+m1 HB: epoch=2 {foo:0-1}" in shown
    rewrite(scenario, "core", brokers)
    assert all(result.passed for result in run(scenario, "core", brokers))


def test_another_backend_gets_a_variant_without_reason(sample: Path, tmp_path: Path) -> None:
    (scenario,) = read_file(sample)
    brokers = Brokers(tmp_path)
    for block in scenario.blocks:
        block.variants.clear()
    for result in run(scenario, "core", brokers):
        if not result.passed:
            result.block.variants["core"] = type(result.block.expected)(result.actual, UNEXPLAINED)
    assert [sorted(block.variants) for block in scenario.blocks] == [["core"], []]
    assert all(result.passed for result in run(scenario, "core", brokers))


def test_commands() -> None:
    command = parse_command('m1 HB(-2) names=[foo,bar] regex="a b" owned={foo:0-1 bar:2} x')
    assert (command.actor, command.verb, command.number) == ("m1", "HB", -2)
    assert command.words == ["x"]
    assert command.list_of("names") == ["foo", "bar"]
    assert command.text_of("regex") == "a b"
    assert partitions_of(command.options["owned"]) == {"foo": [0, 1], "bar": [2]}
    assert command.label == "m1 HB"
    assert parse_command("LIST").actor == ""
    assert split('a,"b,c",[d,e]', ",") == ["a", '"b,c"', "[d,e]"]
    with pytest.raises(ValueError, match="no verb"):
        parse_command("nothing here")


@pytest.mark.parametrize("text", ["0", "0-3", "0,2", "0-1,4-5,9"])
def test_partition_numbers(text: str) -> None:
    assert show_numbers(numbers_of(text)) == text


def test_payloads_and_names() -> None:
    names = Names(prefix="s1-")
    for text in ("{}", "{bar:1 foo:0-2}", "{foo:0}!data"):
        assert show_assignment(make_bytes(names, text), names) == text
    for text in ("<foo>", "<foo,bar>", "<foo|foo:0-2>"):
        assert show_subscription(make_bytes(names, text), names) == text
    assert show_assignment(b"abc", names) == '"abc"'
    assert b"s1-foo" in make_bytes(names, "<foo>")
    assert names.regex_back(names.regex_out("foo.*")) == "foo.*"
    assert names.out("  ") == "  "
    names.members["A"] = "A-1"
    assert [names.alias(one) for one in ("A-1", "", None, "x")] == ["A", '""', "null", "x"]
    assert show_partitions({"b": [1], "a": [0]}) == "{a:0 b:1}"


# Brokers that have just started ----------------------------------------------------------------


class SlowClient:
    """A `WireClient` of a broker that at first does not answer, then loads transactions."""

    calls: list[str] = []  # noqa: RUF012 - emptied by the test
    silent = 2
    loading = 3

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> SlowClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, api: str, version: int, **fields: Any) -> Any:
        self.calls.append(api)
        if len(self.calls) <= self.silent:
            raise brokers.NoReply("nothing came")
        if api == "InitProducerId":
            load_in_progress = self.calls.count(api) <= self.loading
            return {"error_code": 14 if load_in_progress else 0}
        served = {"error_code": 0}
        return {"coordinators": [served]} if api == "FindCoordinator" else {"groups": [served]}


class Broker:
    host, port = "localhost", 1

    def __init__(self, *_: object, **__: object) -> None:
        self.closed = False

    def start(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def test_a_broker_is_waited_for_until_it_serves_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brokers, "WireClient", SlowClient)
    monkeypatch.setattr(brokers, "WARM_UP_PAUSE_S", 0)
    monkeypatch.setattr(SlowClient, "calls", [])
    brokers.warm_up(Broker())  # type: ignore[arg-type]
    assert SlowClient.calls.count("InitProducerId") == SlowClient.loading + brokers.WARM_UP_GROUPS
    with pytest.raises(AssertionError, match="do not become ready"):
        brokers.warm_up(Broker(), timeout_s=-1)  # type: ignore[arg-type]


def test_a_broker_that_never_serves_is_not_there_for_the_next_scenario(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[Broker] = []

    def make(*_: object, **__: object) -> Broker:
        made.append(Broker())
        return made[-1]

    def warm_up(broker: Any) -> None:
        assert len(made) > 1, "the broker's coordinators do not become ready"

    monkeypatch.setattr(brokers, "KafkaBroker", make)
    monkeypatch.setattr(brokers, "warm_up", warm_up)
    started = Brokers(tmp_path)
    with pytest.raises(AssertionError, match="do not become ready"):
        started._broker("kafka", {})
    assert made[0].closed
    assert started._broker("kafka", {}) is made[1]
