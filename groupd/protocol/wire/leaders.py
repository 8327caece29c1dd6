"""Tagged fields of Produce and Fetch replies that name a new leader (KIP-951).

A client that hits NOT_LEADER_OR_FOLLOWER goes to that leader without a metadata request.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from groupd.protocol.messages.cluster import Node
from groupd.protocol.wire.schema import struct
from groupd.protocol.writer import Writer

_LEADER = Struct(">iix")


def current_leader(leader: tuple[int, int]) -> bytes:
    """The struct (node id, leader epoch); its own tagged fields are empty, hence one zero."""
    return _LEADER.pack(*leader)


def node_endpoints(nodes: Sequence[Node]) -> bytes:
    writer = Writer(flexible=True)
    for node in writer.structs(nodes):
        writer.int32(node.node_id)
        writer.string(node.host)
        writer.int32(node.port)
        writer.nullable_string(node.rack)
    return bytes(writer.buffer)


LEADER = struct(tuple, "0:int32 1:int32")
ENDPOINT = struct(Node, "node_id:int32 host:string port:int32 rack:string?")
