"""`blocked` names the transaction that holds a group's offsets back."""

from __future__ import annotations

from groupd.testing.harness import GroupCoordinator
from tests.support.wire_client import WireClient


def test_an_open_transaction_with_offsets_of_the_group_is_named() -> None:
    with GroupCoordinator.start({"orders": 2}) as c, WireClient(c.host, c.port) as client:
        c.commit("billing", {"orders": {0: 1}})
        shown = c.describe("billing")
        assert shown is not None
        assert shown["blocked"] == []

        said = {"transactional_id": "worker", "transaction_timeout": 60_000}
        given = client.call("InitProducerId", 4, **said)
        producer = {
            "transactional_id": "worker",
            "producer_id": given["producer_id"],
            "producer_epoch": given["producer_epoch"],
        }
        assert client.call("AddOffsetsToTxn", 3, **producer, group_id="billing")["error_code"] == 0
        places = [
            {"partition_index": number, "committed_offset": 5, "committed_metadata": ""}
            for number in (0, 1)
        ]
        client.call(
            "TxnOffsetCommit",
            3,
            **producer,
            group_id="billing",
            generation_id=-1,
            member_id="",
            topics=[{"name": "orders", "partitions": places}],
        )
        shown = c.describe("billing")
        assert shown is not None
        why = (
            "offsets of orders-0 and 1 more wait for the end of the transaction of producer "
            f"{given['producer_id']}"
        )
        assert [entry["why"] for entry in shown["blocked"]] == [why]

        client.call("EndTxn", 3, **producer, committed=True)
        c.wait_committed("billing", "orders", 0, 5)
        shown = c.describe("billing")
        assert shown is not None
        assert shown["blocked"] == []
