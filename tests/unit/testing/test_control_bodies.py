"""What the control API says of a body that does not fit its route: where, and why."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec import ValidationError
from msgspec.json import decode

from groupd.coordinator.faults.spec import FaultFields
from groupd.coordinator.suggest import misfit
from groupd.testing.control_bodies import ClockBody, RecordsBody, fields_of
from groupd.testing.control_routes import ANY_WAIT
from groupd.testing.operations import Operations

TOPIC = fields_of(Operations.create_topic)
MOVE = fields_of(Operations.move_coordinator)


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b'{"name":"t","partitions":true}', TOPIC, "partitions must be a whole number or"),
        (b'{"name":"t","partitions":1.5}', TOPIC, "partitions must be a whole number or"),
        (b'{"name":"t","config":{"a":1}}', TOPIC, r"body\.config\[\.\.\.\] must be text"),
        (b"[]", TOPIC, "^body must be an object, not a list$"),
        (b"{}", TOPIC, "^body needs name$"),
        (b'{"name":"t","colour":1}', TOPIC, "^body has no colour$"),
        (b'{"name":"%s"}' % (b"n" * 1025), TOPIC, "name must be text of length <= 1024"),
        (b'{"records":[{"value":5}]}', RecordsBody, r"body\.records\[0\]\.value must be text or"),
        (b'{"records":[{"value":5}]}', RecordsBody, r' \(text \(UTF-8\), {"base64": "\.\.\."}'),
        (b'{"records":[%s"a"]}' % (b'"a",' * 10_000), RecordsBody, "a list of length <= 10000"),
        (b'{"until":"rain"}', ANY_WAIT, r"body\.until must be one of stable, .*, not 'rain'"),
        (b'{"until":"stable","timeout":61}', ANY_WAIT, r"body\.timeout must be a number <= 60"),
        (b'{"mode":"fast"}', ClockBody, r"mode must be one of \w+, \w+, not 'fast' \(real, frozen"),
        (b'{"mode":0}', ClockBody, r"body\.mode must be a number > 0"),
        (b'{"to":[1,"h",0]}', MOVE, r"body\.to\[2\] must be a whole number >= 1"),
        (b'{"action":"explode"}', FaultFields, "action must be one of .*hold.*, not 'explode'"),
    ],
)
def test_it_says_where_and_why(body: bytes, kind: Any, says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        decode(body, type=kind)
    found = misfit(caught.value, kind, "body")
    assert re.search(says, found), found


def test_a_field_that_is_none_is_not_given() -> None:
    assert decode(b'{"name":"t","partitions":null}', type=TOPIC).given() == {"name": "t"}
    found = decode(b'{"until":"epoch","member":"m","epoch":0}', type=ANY_WAIT)
    assert (type(found).__name__, found.given()) == ("WaitEpoch", {"member": "m", "epoch": 0})


def test_a_route_takes_what_its_operation_takes_but_for_the_path() -> None:
    kind = fields_of(Operations.wait_released, ["group"], "released")
    assert kind.__struct_fields__ == ("topic", "partition", "member", "timeout")
    assert kind.__struct_config__.tag == "released"
    assert fields_of(Operations.settle).__struct_fields__ == ()
