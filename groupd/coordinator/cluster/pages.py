"""`/cluster` of the admin port: the nodes, what each of them serves, and draining them."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, as_json, text
from groupd.coordinator.cluster.local_node import LocalNode
from groupd.storage.cluster import NodeState
from groupd.storage.log import LogError

_ACTIONS = {"drain": True, "resume": False}
_ID_MAX = 2**31 - 1
_DIGITS_MAX = len(str(_ID_MAX))


class ClusterPages:
    """Shows what this node has last heard from the database; any node can do so."""

    def __init__(self, member: LocalNode) -> None:
        self._member = member

    def show(self, request: HttpRequest) -> HttpReply:
        """The route `/cluster`."""
        if len(request.path) > 1:
            return text("not found", 404)
        node, units = self._member.node, self._member.units
        view = node.view
        return as_json(
            {
                "node": self._member.node_id,
                "lease_left_ms": max(0, node.lease.left_ms),
                "lease_ms": node.lease.lease_ms,
                "catalogue": view.catalogue,
                "timeline": view.timeline,
                "level": view.level,
                "units_without_owner": len(units.get(None, ())) + view.missing,
                "nodes": self.nodes(),
                "units": [
                    {
                        "kind": one.unit.kind,
                        "number": one.unit.number,
                        "owner": one.owner,
                        "wanted": one.wanted,
                        "epoch": one.epoch,
                    }
                    for one in sorted(view.units.values(), key=lambda one: one.unit)
                ],
            }
        )

    def nodes(self) -> list[dict[str, Any]]:
        return [self._node(one) for one in self._member.node.view.members]

    def _node(self, one: NodeState) -> dict[str, Any]:
        facts, left_ms = one.facts, self._member.node.view.left_ms(one)
        address = "{1}:{2}".format(*facts.listeners[0]) if facts.listeners else ""
        state = "draining" if one.draining else "live"
        return {
            "node": facts.node_id,
            "state": state if left_ms > 0 else "lease over",
            "lease_left_ms": max(0, left_ms),
            "incarnation": one.incarnation,
            "units": self._units_of(facts.node_id),
            "address": address,
            "listeners": {name: f"{host}:{port}" for name, host, port in facts.listeners},
            "admin": facts.admin,
            "rack": facts.rack,
            "version": facts.version,
            "catalogue": one.applied,
        }

    def _units_of(self, node_id: int) -> dict[str, int]:
        """How many units of each kind a node owns."""
        counts = dict.fromkeys(self._member.node.view.counts, 0)
        for unit in self._member.units.get(node_id, ()):
            counts[unit.kind] += 1
        return counts

    async def act(self, request: HttpRequest) -> HttpReply:
        """POST `/cluster/drain?node=N` and `/cluster/resume?node=N`."""
        action = request.path[1] if len(request.path) == 2 else ""
        if action not in _ACTIONS:
            return text("not found", 404)
        number = request.query.get("node", "")
        if not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX):
            return text("node: must be the id of a node", 400)
        try:
            known = int(number) <= _ID_MAX and await self._member.node.drain(
                int(number), _ACTIONS[action]
            )
        except LogError as error:
            return text(f"the database does not answer: {error}", 503)
        if not known:
            return text(f"there is no node {int(number)}", 404)
        return text(f"node {int(number)}: {'drains' if _ACTIONS[action] else 'serves its share'}")
