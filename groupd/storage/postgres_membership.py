"""`storage.cluster.Membership` on PostgreSQL. All times are those of the database's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import structlog
from sqlalchemy import Connection, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from groupd.storage import membership_rows as rows
from groupd.storage.cluster import (
    EPOCH_STEP,
    ClusterState,
    LeaseLost,
    NodeFacts,
    NodeIdInUse,
    Plan,
    UnitState,
)
from groupd.storage.db_transactions import Transactions
from groupd.storage.log import LogError, LogUnavailable, StoreRefused
from groupd.storage.postgres import Fence, connecting, is_dead
from groupd.storage.postgres_session import PostgresErrors, Session, connect, take_lock
from groupd.storage.postgres_url import PostgresAddress
from groupd.storage.tables import cluster_node, cluster_unit
from groupd.storage.units import OwnedUnit, Unit

log = structlog.get_logger("groupd.cluster")

T = TypeVar("T")

ANSWER_MS = 1000
"""How long an answer may take before this node asks again: less than the default of a lease."""

LISTEN_AGAIN_S = 0.5


class PostgresMembership:
    """See `storage.cluster.Membership`. `joined` is called with the member that this process
    becomes, and with None when it is no member any more."""

    def __init__(self, address: PostgresAddress, joined: Callable[[Fence | None], None]) -> None:
        self._address = address
        self._errors = PostgresErrors(address)
        self._joined = joined
        self._lease_ms = 0
        self._me: Fence | None = None
        self._transactions: Transactions | None = None
        self._notified: Callable[[], None] = lambda: None
        self._listening: asyncio.Task[None] | None = None

    async def _session(self) -> Session:
        session = await connect(
            self._address, writes=True, statement_timeout_ms=ANSWER_MS, shared=True
        )
        try:
            holder = await take_lock(session, shared=True)
            if holder is not None:
                raise LogUnavailable(f"{self._address.where}: locked by {holder.name}")
        except BaseException:
            session.terminate()
            raise
        return session

    async def start(self) -> None:
        def work(connection: Connection) -> None:
            rows.timeline(connection)

        # This first connection has the timeout of a start. Later connections have a short one,
        # because a late answer is of no use.
        session = partial(connect, self._address, writes=True)
        once = Transactions(connecting(session), 1, is_dead)
        try:
            await once.run(work)
        except self._errors.failures as error:
            raise self._errors.refusal(error) from error
        finally:
            await once.close()
        self._transactions = Transactions(connecting(self._session), 1, is_dead)

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
            self._listening = None
        transactions, self._transactions = self._transactions, None
        if transactions is not None:
            await transactions.close()

    async def _run(self, work: Callable[[Connection], T]) -> T:
        if self._transactions is None:
            raise LogUnavailable(f"{self._address.where}: not open")
        try:
            return await self._transactions.run(work)
        except self._errors.failures as error:
            raise self._errors.log_error(error) from error
        except StoreRefused as refused:
            # For a while the server cannot be a store; usually it is a standby then.
            raise LogUnavailable(str(refused)) from refused
        except LeaseLost:
            self._lost()
            raise

    def _lost(self) -> None:
        self._me = None
        self._joined(None)

    def _mine(self) -> Fence:
        """Returns this member. Raises LeaseLost."""
        if self._me is None:
            raise LeaseLost("this node is no member")
        return self._me

    # Members ------------------------------------------------------------------------------

    async def draw_node_id(self) -> int:
        def work(connection: Connection) -> int:
            rows.lock(connection)
            taken = set(connection.scalars(select(cluster_node.c.node_id)))
            node_id = next(one for one in range(len(taken) + 1) if one not in taken)
            connection.execute(
                insert(cluster_node).values(node_id=node_id, incarnation=0, facts="{}")
            )
            return node_id

        return await self._run(work)

    async def join(self, facts: NodeFacts, lease_ms: int) -> int:
        self._lost()

        def work(connection: Connection) -> int:
            rows.lock(connection)
            rows.check_level(connection, facts)
            now_ms, node_id = rows.clock_ms(connection), facts.node_id
            query = select(cluster_node).where(cluster_node.c.node_id == node_id)
            known = connection.execute(query.with_for_update()).one_or_none()
            left_ms = 0 if known is None else (known.lease_until_ms or 0) - now_ms
            if known is not None and left_ms > 0 and not rows.is_of(known.facts, facts.process):
                raise NodeIdInUse(node_id, left_ms)
            incarnation = 1 if known is None else known.incarnation + 1
            row = {
                "incarnation": incarnation,
                "lease_until_ms": now_ms + lease_ms,
                "facts": msgspec.json.encode(facts).decode(),
                "applied": 0,
                "leaving": False,
            }
            statement = upsert(cluster_node).values(node_id=node_id, **row)
            connection.execute(
                statement.on_conflict_do_update(index_elements=["node_id"], set_=row)
            )
            rows.free_units(connection, node_id)
            rows.count_up(connection)
            return int(incarnation)

        incarnation = await self._run(work)
        self._lease_ms = lease_ms
        self._me = Fence(facts.node_id, incarnation)
        self._joined(self._me)
        return incarnation

    async def renew(self, lease_ms: int, applied: int, known_units: int) -> ClusterState:
        me = self._mine()

        def work(connection: Connection) -> ClusterState:
            now_ms = rows.clock_ms(connection)
            rows.update_me(connection, me, lease_until_ms=now_ms + lease_ms, applied=applied)
            return rows.state_of_all(connection, now_ms, known_units)

        return await self._run(work)

    async def retire(self) -> None:
        me = self._mine()

        def work(connection: Connection) -> None:
            rows.lock(connection)
            rows.update_me(connection, me, leaving=True)
            rows.count_up(connection)

        await self._run(work)

    async def leave(self) -> None:
        me = self._mine()

        def work(connection: Connection) -> None:
            rows.lock(connection)
            rows.update_me(connection, me, lease_until_ms=None, incarnation=me.incarnation + 1)
            rows.free_units(connection, me.node)
            rows.count_up(connection)

        await self._run(work)
        self._lost()

    async def drain(self, node_id: int, draining: bool) -> bool:
        def work(connection: Connection) -> bool:
            rows.lock(connection)
            updated = connection.execute(
                update(cluster_node)
                .where(cluster_node.c.node_id == node_id)
                .values(draining=draining)
            ).rowcount
            rows.count_up(connection)
            return updated == 1

        return await self._run(work)

    # Units --------------------------------------------------------------------------------

    async def plan(self, decide: Plan, counts: Mapping[str, int]) -> ClusterState:
        me, lease_ms = self._mine(), self._lease_ms

        def work(connection: Connection) -> ClusterState:
            state = rows.lock(connection)
            rows.check_me(connection, me)
            now_ms = rows.clock_ms(connection)
            if not rows.may_assign_units(connection, state, now_ms, lease_ms):
                return rows.state_of_all(connection, now_ms, -1)
            changed = rows.fence_dead(connection, now_ms)
            rows.check_me(connection, me)  # the lease of this node may be over, too
            changed = rows.make_missing(connection, counts) or changed
            nodes, units = rows.all_members(connection, now_ms), rows.all_units(connection)
            rows.raise_level(connection, nodes)
            wanted = decide(nodes, units)
            moves: dict[int | None, list[Unit]] = {}
            for one in units:
                if wanted.get(one.unit) != one.wanted:
                    moves.setdefault(wanted.get(one.unit), []).append(one.unit)
            for node, moved in moves.items():
                rows.plan_units(connection, moved, node)
            if changed or moves:
                rows.count_up(connection)
            return rows.state_of_all(connection, now_ms, -1)

        return await self._run(work)

    async def acquire(self) -> tuple[UnitState, ...]:
        me, lease_ms, columns = self._mine(), self._lease_ms, cluster_unit.c
        mine = {"owner": me.node, "incarnation": me.incarnation}
        free = columns.owner.is_(None) & (columns.wanted == me.node)
        owned = (columns.owner == me.node) & (columns.incarnation == me.incarnation)

        def work(connection: Connection) -> tuple[UnitState, ...]:
            state = rows.lock(connection)
            now_ms = rows.clock_ms(connection)
            if (rows.check_me(connection, me) or 0) <= now_ms:
                raise LogUnavailable("the lease of this node is over and not renewed yet")
            if rows.may_assign_units(connection, state, now_ms, lease_ms):
                taken = connection.execute(
                    update(cluster_unit)
                    .where(free)
                    .values(epoch=columns.epoch + EPOCH_STEP, **mine)
                )
                if taken.rowcount:
                    rows.count_up(connection)
            return rows.all_units(connection, owned)

        return await self._run(work)

    async def release(self, units: Sequence[OwnedUnit]) -> None:
        me = self._mine()

        def work(connection: Connection) -> None:
            rows.lock(connection)
            rows.check_me(connection, me)
            rows.release_units(connection, me, units)
            rows.count_up(connection)

        await self._run(work)

    # Notifications ------------------------------------------------------------------------

    def listen(self, notified: Callable[[], None]) -> None:
        self._notified = notified
        if self._listening is None:
            loop = asyncio.get_running_loop()
            self._listening = loop.create_task(self._listen(), name="postgres-listen")

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again
                told = error if isinstance(error, LogError) else self._errors.log_error(error)
                log.info("notifications cannot be heard now", reason=str(told))
            self._notified()
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def _listen_once(self) -> None:
        """Listens in one session and returns when it has ended."""
        session = await connect(self._address, writes=False)
        ended = asyncio.Event()
        session.add_termination_listener(lambda _: ended.set())
        try:
            await session.add_listener(rows.CHANNEL, lambda *_: self._notified())
            self._notified()  # changes may have been missed before
            await ended.wait()
        finally:
            session.terminate()
