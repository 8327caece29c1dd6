"""Networks take turns, and the one that has most gives way."""

from __future__ import annotations

from groupd.coordinator.server.by_network import ByNetwork


def test_networks_take_turns_and_the_newest_of_each_comes_first() -> None:
    line: ByNetwork[str] = ByNetwork()
    for item in ("a1", "a2", "a3", "b1", "c1", "c2"):
        line.add(item, item[0])
    line.add("a3", "b")
    assert [line.take() for _ in range(3)] == ["a3", "b1", "c2"]
    line.add("d1", "d")
    assert [line.take() for _ in range(4)] == ["a2", "c1", "d1", "a1"]
    assert (len(line), line.weight) == (0, 0)


def test_the_network_with_the_most_weight() -> None:
    line: ByNetwork[str] = ByNetwork()
    for item, weight in (("a1", 1), ("a2", 1), ("b1", 5), ("b2", 1)):
        line.add(item, item[0], weight)
    assert (line.weight, line.heaviest(), line.oldest("b")) == (8, "b", "b1")
    line.discard("b1")
    line.discard("b1")
    assert (line.weight, line.heaviest(), line.oldest("a")) == (3, "a", "a1")
    assert (line.weight_of("b"), line.weight_of("nobody")) == (1, 0)
    assert line.take("b") == "b2"
    assert list(line.networks) == ["a"]
