"""The commands of `groupd topics`: flags and help. The code that does the work is imported when a
command runs, so that other commands do not wait for it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from groupd.coordinator.cli.kafka.flags import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Wide,
    is_json,
)

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
    from groupd.coordinator.cli import topics_work

    as_json = is_json(output)
    topics_work.list_topics(bootstrap_server, command_config, text, as_json=as_json, wide=wide)


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

    `records` counts offsets: what was compacted and markers of transactions are among them.

    Example: groupd topics describe orders payments
    """
    from groupd.coordinator.cli import topics_work

    as_json = is_json(output)
    topics_work.describe_topics(
        bootstrap_server, command_config, topics, as_json=as_json, wide=wide
    )
