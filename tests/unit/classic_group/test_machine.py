"""Random clients, appends and failovers against the classic handlers.

Safety after every step: generations only grow, a generation has at most one leader, every parked
request is known to its member, every wait has a timer. Liveness at the end: once the faults are
over, the clients that are alive reach one Stable generation.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace as changed

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.classic_group.replay import group_record
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply
from tests.support.blocked import check_blocked
from tests.support.examples import examples
from tests.unit.classic_group.harness import Bench

CLIENTS = 4
REBALANCE_MS = 20_000
HEAL_SECONDS = 120
APPEND_ERRORS = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)


class Client:
    """A consumer as docs/spec/classic-group.md#9 describes it, one request at a time."""

    def __init__(self, name: str, instance: str | None, version: int) -> None:
        self.name, self.instance, self.version = name, instance, version
        self.alive = False
        self.member_id, self.generation = "", -1
        self.phase, self.token = "out", None
        self.metadata, self.flipped = b"0", False

    def restart(self) -> None:
        self.alive, self.member_id = True, ""
        self.phase, self.token = "out", None

    def protocols(self) -> list[tuple[str, bytes]]:
        names = ["sticky", "range"] if self.flipped else ["range", "sticky"]
        return [(name, self.metadata) for name in names]


class ClassicGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.superseded: set[int] = set()
        self.parkable: set[int] = set()
        self.leaders: dict[tuple[int, int], str] = {}
        self.seen: tuple[ClassicGroup | None, int] = (None, 0)
        self.kept: list[ClassicGroup] = []
        self.judged: set[int] = set()

    @initialize(
        versions=st.lists(st.sampled_from([3, 8, 9]), min_size=CLIENTS, max_size=CLIENTS),
        alive=st.integers(1, CLIENTS),
        seconds=st.sampled_from([12, 4, 0]),
    )
    def begin(self, versions: list[int], alive: int, seconds: int) -> None:
        self.clients = [
            Client(f"c{i}", f"i{i}" if i % 2 and version > 3 else None, version)
            for i, version in enumerate(versions)
        ]
        for client in self.clients[:alive]:
            client.restart()
        self.a_while(seconds)

    # What clients do

    def _park(self, send, member_id: str) -> int:
        """Sends a Join or Sync; the one whose place it takes needs no answer."""
        before = self._parked_of(member_id)
        token = send()
        self.parkable.add(token)
        lost = before - self._parked_of(member_id) - set(self.bench.replies)
        if token not in self.bench.replies:
            self.superseded |= lost
        return token

    def _parked_of(self, member_id: str) -> set[int]:
        group = self._group()
        member = None if group is None else group.members.get(member_id)
        if member is None:
            return set()
        return {t for t in (member.join_token, member.sync_token) if t is not None}

    def _join(self, client: Client) -> None:
        client.phase = "joining"
        client.token = self._park(
            lambda: self.bench.join(
                client.member_id,
                version=client.version,
                protocols=client.protocols(),
                instance=client.instance,
                client=client.name,
                rebalance=REBALANCE_MS,
            ),
            client.member_id,
        )

    def _step(self, client: Client) -> None:
        if client.token in self.superseded:
            # Somebody else's request took the slot: ours times out.
            client.token, client.phase = None, "out"
        elif client.token is not None:
            reply = self.bench.replies.get(client.token)
            if reply is not None:
                client.token = None
                self._digest(client, reply)
        elif client.phase == "out":
            self._join(client)
        else:
            beat = self.bench.beat(client.member_id, client.generation, instance=client.instance)
            if beat is not ErrorCode.NONE:
                self._rejoin_after(client, beat)

    def _digest(self, client: Client, reply) -> None:
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
            self._join(client)
        elif reply.error is not ErrorCode.NONE:
            self._rejoin_after(client, reply.error)
        elif client.phase == "syncing":
            client.phase = "in"
        else:
            client.member_id, client.generation = reply.member_id, reply.generation_id
            leads = reply.leader == reply.member_id and not reply.skip_assignment
            plan = {m.member_id: m.member_id.encode() for m in reply.members} if leads else {}
            client.phase = "syncing"
            client.token = self._park(
                lambda: self.bench.sync(
                    client.member_id, client.generation, plan, instance=client.instance
                ),
                client.member_id,
            )

    def _rejoin_after(self, client: Client, error: ErrorCode) -> None:
        assert error is not ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        client.phase = "out"
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""

    @rule(index=st.integers(0, CLIENTS - 1))
    def start_or_restart(self, index: int) -> None:
        self.clients[index].restart()

    @rule(index=st.integers(0, CLIENTS - 1))
    def crash(self, index: int) -> None:
        self.clients[index].alive = False

    @rule(index=st.integers(0, CLIENTS - 1), times=st.integers(1, 3))
    def one_steps(self, index: int, times: int) -> None:
        for _ in range(times):
            if self.clients[index].alive:
                self._step(self.clients[index])

    @rule(seconds=st.sampled_from([1, 4, 12]))
    def a_while(self, seconds: int) -> None:
        """Lets everybody who is alive behave."""
        for _ in range(seconds):
            for client in self.clients:
                if client.alive:
                    self._step(client)
            self.bench.advance(1000)

    @rule(index=st.integers(0, CLIENTS - 1), flip=st.booleans())
    def change_subscription(self, index: int, flip: bool) -> None:
        client = self.clients[index]
        client.metadata = b"%d" % (int(client.metadata) + 1)
        client.flipped ^= flip
        if client.alive and client.phase == "in":
            client.phase = "out"

    @rule(index=st.integers(0, CLIENTS - 1))
    def retry_on_another_connection(self, index: int) -> None:
        client = self.clients[index]
        if client.alive and client.phase == "joining" and client.member_id:
            self._join(client)

    @rule(index=st.integers(0, CLIENTS - 1), by_instance=st.booleans())
    def leave(self, index: int, by_instance: bool) -> None:
        client = self.clients[index]
        if by_instance and client.instance is not None:
            self.bench.leave(("", client.instance))
        elif client.member_id:
            self.bench.leave((client.member_id, None))
            client.alive = False

    @rule(index=st.integers(0, CLIENTS - 1), generation=st.integers(0, 3))
    def stale_requests(self, index: int, generation: int) -> None:
        client = self.clients[index]
        member_id = client.member_id or "nobody"
        self.bench.beat(member_id, generation)
        self._park(lambda: self.bench.sync(member_id, generation), member_id)

    # What happens to the coordinator

    @rule(seconds=st.sampled_from([1, 11, 21]))
    def time_passes(self, seconds: int) -> None:
        self.bench.advance(seconds * 1000)

    @rule()
    def hold_appends(self) -> None:
        self.bench.hold = True

    @precondition(lambda self: self.bench.appending)
    @rule()
    def commit(self) -> None:
        self.bench.commit()

    @precondition(lambda self: self.bench.appending)
    @rule(code=st.sampled_from(APPEND_ERRORS))
    def appends_fail(self, code: ErrorCode) -> None:
        """A log refuses in order: nothing after a failed append gets through."""
        while self.bench.appending:
            self.bench.fail(code)

    @rule(polite=st.booleans())
    def failover(self, polite: bool) -> None:
        """Gives the group to a new owner, after an unload or a crash; appends under way are
        lost."""
        if polite:
            self.bench.unload()
            left_out = self.parkable - set(self.bench.replies) - self.superseded
            assert not left_out, "an unload answers every parked request"
        for client in self.clients:
            if client.token is not None and client.token not in self.bench.replies:
                client.token, client.phase = None, "out"
        self.bench = self.bench.reload()
        self.parkable, self.superseded = set(), set()

    # What must always hold

    def _group(self) -> ClassicGroup | None:
        return self.bench.state.groups.get("g")

    @invariant()
    def whoever_waits_says_what_for(self) -> None:
        check_blocked(self.bench.state, self.bench.now)

    @invariant()
    def generations_grow(self) -> None:
        group = self._group()
        if group is not None:
            if self.seen[0] is group:
                assert group.generation >= self.seen[1]
            else:
                self.kept.append(group)
            self.seen = (group, group.generation)

    @invariant()
    def one_leader_per_generation(self) -> None:
        for token in self.parkable & set(self.bench.replies) - self.judged:
            self.judged.add(token)
            reply = self.bench.replies[token]
            if not isinstance(reply, JoinGroupReply) or reply.error is not ErrorCode.NONE:
                continue
            if reply.leader == reply.member_id:
                # A static leader that restarts is the same leader under a new id.
                slot = reply.member_id
                for client in self.clients:
                    if client.instance and reply.member_id.startswith(f"{client.instance}-"):
                        slot = client.instance
                key = (len(self.kept), reply.generation_id)
                assert self.leaders.setdefault(key, slot) == slot
            else:
                assert not reply.members

    @invariant()
    def no_request_is_lost(self) -> None:
        group = self._group()
        parked = [
            token
            for member in (group.members.values() if group is not None else ())
            for token in (member.join_token, member.sync_token)
            if token is not None
        ]
        assert len(parked) == len(set(parked))
        assert not set(parked) & set(self.bench.replies)
        assert set(parked) == self.parkable - set(self.bench.replies) - self.superseded

    @invariant()
    def counts_are_right(self) -> None:
        group = self._group()
        if group is None:
            return
        members = group.members.values()
        assert group.joins_parked == sum(m.join_token is not None for m in members)
        supporters = Counter(name for m in members for name in m.protocol_names())
        assert +Counter(group._supporters) == supporters
        statics = {m.group_instance_id: m.member_id for m in members if m.is_static}
        assert group.static_members == statics
        assert not set(group.pending_members) & set(group.members)
        assert group.pending_sync <= set(group.members)
        assert (group.leader_id in group.members) == bool(members)

    @invariant()
    def every_wait_has_an_end(self) -> None:
        group, deadlines = self._group(), self.bench.state.deadlines
        if group is None:
            assert len(deadlines) == 0
            return
        expected = {("classic-session", "g", m) for m in group.pending_members}
        for member in group.members.values():
            if member.is_new or not member.is_waiting:
                expected.add(("classic-session", "g", member.member_id))
        set_now = {key for key, _ in deadlines.items()}
        assert expected <= set_now
        joining = group.state is State.PREPARING_REBALANCE
        assert (("classic-join", "g", "") in set_now) == joining
        assert (("classic-sync", "g", "") in set_now) == bool(group.pending_sync)
        sessions = {key[2] for key in set_now if key[0] == "classic-session"}
        assert sessions <= {*group.pending_members, *group.members}
        if group.state is State.COMPLETING_REBALANCE and not group.pending_sync:
            assert self.bench.appending
        assert (group.state is State.EMPTY) <= (not group.members)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            assert group.members

    @invariant()
    def a_stable_group_is_what_the_log_says(self) -> None:
        group = self._group()
        if group is None or group.state is not State.STABLE or self.bench.appending:
            return
        live, logged = group_record(group).value, self.bench.log[-1].value
        assert changed(live, current_state_timestamp_ms=0) == changed(
            logged, current_state_timestamp_ms=0
        )

    def teardown(self) -> None:
        """Ends the faults: all who are alive reach one Stable generation within bounded time."""
        bench = self.bench
        while bench.appending:
            bench.commit()
        bench.hold = False
        alive = [client for client in self.clients if client.alive]
        for _ in range(HEAL_SECONDS):
            for client in alive:
                self._step(client)
                self._step(client)
            bench.advance(1000)
            group = self._group()
            settled = all(
                client.phase == "in" and group and client.generation == group.generation
                for client in alive
            )
            if settled and (not alive or bench.state_name == "Stable"):
                break
        else:
            raise AssertionError(f"stalled in {bench.state_name}")
        self.no_request_is_lost()
        self.a_stable_group_is_what_the_log_says()


TestClassicGroupMachine = ClassicGroupMachine.TestCase
TestClassicGroupMachine.settings = examples(80, stateful_step_count=40)
