"""A transaction whose caller is gone: nobody is left to hear of its failure, and that is no bug."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

from groupd.storage.db_transactions import OpenConnection, Transactions


async def test_a_failure_that_nobody_waits_for_is_not_reported() -> None:
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context["message"])
    )
    refused = asyncio.Event()

    async def connect() -> OpenConnection:
        await refused.wait()
        raise OSError("connection refused")

    transactions = Transactions(connect, 1)
    caller = asyncio.create_task(transactions.run(lambda _: None))
    await asyncio.sleep(0)
    caller.cancel()
    with suppress(asyncio.CancelledError):
        await caller
    refused.set()
    await transactions.close()
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
