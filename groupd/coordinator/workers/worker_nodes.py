"""The nodes that the workers of a daemon are: ports, advertised addresses, shards."""

from __future__ import annotations

import socket

from groupd.coordinator.advertised import told_host
from groupd.coordinator.server.acceptor import BACKLOG
from groupd.coordinator.server.listener import CannotListen, cannot_listen
from groupd.coordinator.workers.link import WorkerNode
from groupd.protocol.messages.cluster import Node

PORT_MAX = 65_535


def bind_nodes(
    workers: int,
    shards: int,
    node_id: int,
    listen: tuple[str, int],
    advertised: tuple[str, int] | None,
    rack: str | None,
) -> list[WorkerNode]:
    """Worker i of 1..`workers` is node `node_id` + i, listens on the
    port i above `listen`, or on any free one if that is 0, and serves the shards with
    shard % workers == i - 1. Raises CannotListen."""
    if advertised is not None and advertised[1] + workers > PORT_MAX:
        host, port = advertised
        raise CannotListen(
            f"--advertised {host}:{port}: the ports of {workers} workers, which follow, would go "
            f"beyond {PORT_MAX}"
        )
    nodes: list[WorkerNode] = []
    try:
        for index in range(1, workers + 1):
            host, port = listen
            bound = _bind(host, port + index if port else 0)
            name = bound.getsockname()
            address = (told_host(host, name[0]), name[1])
            if advertised is not None:
                address = (advertised[0], advertised[1] + index)
            node = Node(node_id + index, *address, rack)
            nodes.append(WorkerNode(node, tuple(range(index - 1, shards, workers)), bound))
    except BaseException:
        for bound_node in nodes:
            bound_node.bound.close()
        raise
    return nodes


def _bind(host: str, port: int) -> socket.socket:
    """A socket that listens: clients that connect while the worker restarts wait in its backlog."""
    if port > PORT_MAX:
        raise CannotListen(f"--listen {host}:{port}: the ports of workers end at {PORT_MAX}")
    bound: socket.socket | None = None
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = infos[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        if bound is not None:
            bound.close()
        raise cannot_listen(host, port, "--listen", error) from error
    return bound
