"""What the program does when nothing goes wrong."""

from __future__ import annotations

import signal

import pytest

from billing.orders import BadOrder, Order, parse
from workers import Worker, order

pytestmark = pytest.mark.groupd(topics={"orders": 6})


def test_orders_are_billed_and_committed(groupd, database, ledger):
    groupd.produce("orders", [order(number) for number in range(60)])
    with Worker(groupd.bootstrap_servers, database) as worker:
        groupd.wait_lag("billing", 0)
    assert ledger.invoices() == {f"order-{number}": 100 for number in range(60)}
    assert set(worker.charged.values()) == {1}


def test_a_bad_order_does_not_hold_up_the_others(groupd, database, ledger):
    bad = {"value": '{"id": "order-7"}', "partition": 0}
    groupd.produce("orders", [order(1, partition=0), bad, order(2, partition=0)])
    with Worker(groupd.bootstrap_servers, database):
        groupd.wait_committed("billing", "orders", 0, 3)
    assert set(ledger.invoices()) == {"order-1", "order-2"}
    assert ledger.rejected() == {"orders-0@1": "no positive number of cents"}


def test_sigterm_commits_and_leaves(groupd, start_process):
    groupd.produce("orders", [order(number, partition=0) for number in range(5)])
    process = start_process()
    groupd.wait_committed("billing", "orders", 0, 5, timeout=20)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert groupd.wait_members("billing", 0) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "not an object"),
        (b'{"cents": 5}', "no id"),
        (b'{"id": "a", "cents": 0}', "no positive number of cents"),
    ],
)
def test_what_cannot_be_billed(data, reason):
    with pytest.raises(BadOrder, match=reason):
        parse(data)


def test_an_order():
    assert parse(b'{"id": "a", "cents": 5}') == Order("a", 5)
