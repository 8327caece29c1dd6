"""A recording of a secured broker replays with the rights of each client, and has no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError

from groupd.testing import replay
from groupd.testing.harness import GroupCoordinator
from groupd.testing.security import MechanismName, ProtocolName

PASSWORD = "s3cret-of-billing"


@pytest.mark.parametrize(
    ("security", "mechanism"),
    [("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-256"), ("SSL", None)],
)
def test_a_secured_broker_is_replayed(
    tmp_path: Path, security: ProtocolName, mechanism: MechanismName | None
) -> None:
    path = tmp_path / "run.jsonl"
    with GroupCoordinator.start(
        {"orders": 2},
        security=security,
        users={"billing": PASSWORD, "audit": "other"},
        acls=["billing may READ topic orders", "billing may READ group g"],
        record=path,
    ) as c:
        c.produce("orders", ["a"])
        codes = []
        for user in ("billing", "audit"):
            config = c.client_config("confluent-kafka", user=user, mechanism=mechanism)
            consumer = Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            message = consumer.poll(20)
            assert message is not None
            error = message.error()
            codes.append(None if error is None else error.code())
            consumer.close()
        assert codes == [None, KafkaError.GROUP_AUTHORIZATION_FAILED]
        c.add_user("late", PASSWORD)
    text = path.read_text()
    assert '"principal":"User:billing"' in text.replace(" ", "")
    assert PASSWORD not in text
    assert replay(path) is None
