"""What the control API says of a body that does not fit its route: where, and why."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec import ValidationError
from msgspec.json import decode

from groupd.coordinator.faults.spec import FaultFields
from groupd.coordinator.suggest import misfit
from groupd.testing.control_bodies import (
    AnyWait,
    ClockBody,
    MoveBody,
    RecordsBody,
    TopicBody,
    UntilEpoch,
)


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b'{"name":"t","partitions":true}', TopicBody, "partitions must be a whole number or"),
        (b'{"name":"t","partitions":1.5}', TopicBody, "partitions must be a whole number or"),
        (b'{"name":"t","config":{"a":1}}', TopicBody, r"body\.config\[\.\.\.\] must be text"),
        (b"[]", TopicBody, "^body must be an object, not a list$"),
        (b"{}", TopicBody, "^body needs name$"),
        (b'{"name":"t","colour":1}', TopicBody, "^body has no colour$"),
        (b'{"name":"%s"}' % (b"n" * 1025), TopicBody, "name must be text of length <= 1024"),
        (b'{"records":[{"value":5}]}', RecordsBody, r"body\.records\[0\]\.value must be text or"),
        (b'{"records":[{"value":5}]}', RecordsBody, r' \(text \(UTF-8\), {"base64": "\.\.\."}'),
        (b'{"records":[%s"a"]}' % (b'"a",' * 10_000), RecordsBody, "a list of length <= 10000"),
        (b'{"until":"rain"}', AnyWait, r"body\.until must be one of stable, .*, not 'rain'"),
        (b'{"until":"stable","timeout":61}', AnyWait, r"body\.timeout must be a number <= 60"),
        (b'{"mode":"fast"}', ClockBody, r"mode must be one of \w+, \w+, not 'fast' \(real, frozen"),
        (b'{"mode":0}', ClockBody, r"body\.mode must be a number > 0"),
        (b'{"to":[1,"h",0]}', MoveBody, r"body\.to\[2\] must be a whole number >= 1"),
        (b'{"action":"explode"}', FaultFields, "action must be one of .*hold.*, not 'explode'"),
    ],
)
def test_it_says_where_and_why(body: bytes, kind: Any, says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        decode(body, type=kind)
    found = misfit(caught.value, kind, "body")
    assert re.search(says, found), found


def test_a_field_that_is_none_is_not_given() -> None:
    assert decode(b'{"name":"t","partitions":null}', type=TopicBody).given() == {"name": "t"}
    found = decode(b'{"until":"epoch","member":"m","epoch":0}', type=AnyWait)
    assert (type(found), found.given()) == (UntilEpoch, {"member": "m", "epoch": 0})
