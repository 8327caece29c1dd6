"""Configs that clients may set: one way to declare, check and change a key."""

from __future__ import annotations

import pytest

from groupd.coordinator.config.keys import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    ConfigKey,
    ConfigTable,
    changes_to,
    check_changes,
)
from groupd.coordinator.config.values import INT, LIST, ValueRule
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import AlterConfig, AlterResource

TABLE = ConfigTable(
    (ConfigKey("items", ValueRule(LIST), "a,b"), ConfigKey("count", ValueRule(INT, 0, 9), "1")),
    unknown=(ErrorCode.INVALID_CONFIG, "Unknown key: "),
    invalid=ErrorCode.POLICY_VIOLATION,
)


def changed(
    *changes: tuple[str, int, str | None], overrides: dict[str, str] | None = None
) -> dict[str, str]:
    return TABLE.changed(
        overrides or {},
        [AlterConfig(*change) for change in changes],
        lambda own, name: own.get(name, TABLE.keys[name].default),
    )


def test_values_are_set_and_deleted() -> None:
    assert changed(("count", SET, " 7 ")) == {"count": "7"}
    assert changed(("count", DELETE, None), overrides={"count": "7"}) == {}
    assert changed(("no.such", DELETE, None)) == {}


def test_lists_grow_from_what_counts() -> None:
    assert changed(("items", APPEND, "b, c,c")) == {"items": "a,b,c"}
    assert changed(("items", SUBTRACT, "a,z")) == {"items": "b"}
    assert changed(("items", SUBTRACT, "x"), overrides={"items": "x,y"}) == {"items": "y"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("count", SET, "10"), ErrorCode.POLICY_VIOLATION),
        (("count", SET, "few"), ErrorCode.POLICY_VIOLATION),
        (("count", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("count", 4, "1"), ErrorCode.INVALID_REQUEST),
        (("no.such", 4, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_changes(change: tuple[str, int, str], code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        changed(change)
    assert refused.value.code is code


def test_a_further_rule_sees_the_stored_value() -> None:
    seen = []
    TABLE.changed(
        {}, [AlterConfig("count", SET, " 3 ")], lambda *_: "", lambda *one: seen.append(one)
    )
    assert seen == [("count", "3")]


def test_what_may_not_be_asked() -> None:
    for changes in (
        (AlterConfig("count", SET, "1"), AlterConfig("count", SET, "2")),
        (AlterConfig("count", SET, None),),
    ):
        with pytest.raises(ApiError) as refused:
            check_changes(changes)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_replacement_deletes_what_it_does_not_name() -> None:
    asked = AlterResource(2, "t", (AlterConfig("count", SET, "2"),), replace=True)
    changes = changes_to(asked, {"items": "x", "count": "1"})
    assert changes == (AlterConfig("items", DELETE, None), AlterConfig("count", SET, "2"))
