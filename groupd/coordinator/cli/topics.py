"""`groupd topics`: the topics of any Kafka cluster, and their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from groupd.coordinator.cli.command_errors import fail
from groupd.coordinator.cli.kafka.flags import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Wide,
    asked_cluster,
    is_json,
)
from groupd.coordinator.cli.tables import json_line, or_dash, table

if TYPE_CHECKING:
    from groupd.coordinator.cli.kafka.calls import TopicMetadata
    from groupd.coordinator.moves.plan import Ranges

OF_LIST = ("topic", "partitions", "replicas", "internal", "topic_id")
OF_DESCRIBE = ("topic", "partition", "leader", "replicas", "in_sync", "start", "end", "records")

app = typer.Typer(help="Topics of a running daemon or of any Kafka cluster.", no_args_is_help=True)


@app.command("list")
def list_topics(
    text: Annotated[
        str, typer.Option("--filter", metavar="TEXT", help="Only topics with TEXT in their name.")
    ] = "",
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """All topics, with their partitions and replicas.

    Example: groupd topics list --filter orders
    """
    # Imported here, because `--help` needs no connections.
    from groupd.coordinator.cli.kafka import calls

    as_json = is_json(output)
    with asked_cluster(bootstrap_server, command_config) as cluster:
        found = calls.metadata(cluster.any(), None, strict=False).topics
    part = text.casefold()
    names = sorted(name for name in found if part in name.casefold())
    _show(OF_LIST, [_topic(found[name]) for name in names], as_json=as_json, wide=wide)


@app.command()
def describe(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names of topics.")],
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """The partitions of topics: who leads them, who replicates them, their first offset and their
    end.

    `records` is the end minus the start, so compacted records and transaction markers count, too.

    Example: groupd topics describe orders payments
    """
    as_json = is_json(output)
    names = list(dict.fromkeys(topics))
    with asked_cluster(bootstrap_server, command_config) as cluster:
        found = cluster.topics(names)
        missing = [name for name in names if name not in found]
        if missing:
            fail(f"no topic {', '.join(missing)}")
        places = [(name, at.partition) for name in names for at in found[name].partitions]
        bounds = cluster.bounds(places)
    rows = [row for name in names for row in _partitions(found[name], bounds)]
    _show(OF_DESCRIBE, rows, as_json=as_json, wide=wide)


def _topic(topic: TopicMetadata) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replicas": max((len(at.replicas) for at in topic.partitions), default=0),
        "internal": topic.internal,
        "topic_id": str(UUID(bytes=topic.topic_id)),
    }


def _partitions(topic: TopicMetadata, bounds: Ranges) -> list[dict[str, Any]]:
    rows = []
    for at in sorted(topic.partitions, key=lambda one: one.partition):
        start, end = bounds.get((topic.name, at.partition), (None, None))
        rows.append(
            {
                "topic": topic.name,
                "partition": at.partition,
                "leader": None if at.leader < 0 else at.leader,
                "replicas": list(at.replicas),
                "in_sync": list(at.in_sync),
                "start": start,
                "end": end,
                "records": None if start is None or end is None else end - start,
            }
        )
    return rows


def _show(
    columns: Sequence[str], rows: Sequence[dict[str, Any]], *, as_json: bool, wide: bool
) -> None:
    if as_json:
        for row in rows:
            json_line(row)
    else:
        titles = [name.replace("_", " ") for name in columns]
        table(titles, [[_cell(row[name]) for name in columns] for row in rows], wide=wide)


def _cell(value: Any) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return or_dash(value)
