"""Writes what the code says anyway: `docs/config.md`, the APIs in `docs/serve.md`, the trace in
`docs/rebalance-trace.md`, the client settings in `docs/testing.md`, the picture of the packages in
`docs/architecture.md`, and `docs/openapi.json`.

Usage: python docs/generate.py [--check]. With --check nothing is written and the exit code is 1
when a file is not current. The unit tests do the same.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from docs.packages import picture  # noqa: E402
from docs.rebalance_trace import trace  # noqa: E402
from groupd.coordinator.cli.show_config import span  # noqa: E402
from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY, WITHOUT_EFFECT  # noqa: E402
from groupd.coordinator.config.settings import descriptions, setting_text  # noqa: E402
from groupd.coordinator.core.group_types import group_configs  # noqa: E402
from groupd.coordinator.topics.broker_keys import DYNAMIC_KEYS  # noqa: E402
from groupd.coordinator.topics.topic_configs import TOPIC_CONFIGS  # noqa: E402
from groupd.protocol.wire.apis import API_BY_KEY  # noqa: E402
from groupd.testing.client_settings import LIBRARIES  # noqa: E402
from groupd.testing.control_api import document  # noqa: E402

ARCHITECTURE_PAGE = ROOT / "docs" / "architecture.md"
TESTING_PAGE = ROOT / "docs" / "testing.md"
SERVE_PAGE = ROOT / "docs" / "serve.md"
TRACE_PAGE = ROOT / "docs" / "rebalance-trace.md"
TRACE = re.compile(r"(<!-- trace -->\n```\n).*?(```\n<!-- /trace -->)", re.DOTALL)
PACKAGES = re.compile(r"(<!-- packages -->\n```\n).*?(```\n<!-- /packages -->)", re.DOTALL)
CLIENTS = re.compile(r"(<!-- clients -->\n).*?(<!-- /clients -->)", re.DOTALL)
API_TABLE = re.compile(r"(<!-- apis -->\n).*?(<!-- /apis -->)", re.DOTALL)

CONFIG_HEAD = """\
# Configuration

Made from `groupd/coordinator/config/`, the texts from `settings.json` there, by
`python docs/generate.py`; a test checks that it is current.

Keys have Kafka's names where Kafka has the setting; the others start with `groupd.`. They are given
with `--set KEY=VALUE` (repeatable) or in a file with `--config FILE`: `.properties` as Kafka's own,
anything else is read as TOML, where tables nest at the dots. `--set` wins over the file. In a
value, `${env:NAME}` stands for a variable of the environment: a way for secrets, as every user of
the machine can read the command line. An unknown key or a value out of range ends the start with
exit code 2. Of Kafka's keys
{without_effect} are accepted and change nothing. Values are read once, at the start;
few can be changed [while the broker runs](#settings-of-the-broker-set-while-running).
`groupd config` prints this list, and `/config` on the admin port shows the values in effect.
"""


def topic_config_rows() -> str:
    """Topic configs that act, as rows of a Markdown table."""
    return "".join(
        f"| `{name}` | `{entry.default}` | {entry.documentation} |\n"
        for name, entry in TOPIC_CONFIGS.keys.items()
        if not entry.documentation.startswith("Accepted and shown")
    )


CONFIG_FOOT = (
    """
## Rules between settings

- Each of `session.timeout.ms`, `heartbeat.interval.ms` and `assignment.interval.ms` of
  `group.consumer` and `group.share`, and `record.lock.duration.ms`, `delivery.count.limit` and
  `partition.max.record.locks` of `group.share`, must lie between its `min` and `max` setting;
  change the bound together with the value.
- The heartbeat interval must be below the session timeout.
- `group.coordinator.rebalance.protocols` must contain `classic`. `streams`, which Kafka may have
  there, is refused: groupd does not serve it. `share` is refused, too: share groups are served
  whatever it says, as in Kafka; `groupd.share.version=0` turns them off.
- `offsets.topic.num.partitions`, `transaction.state.log.num.partitions` and
  `share.coordinator.state.topic.num.partitions` belong to the data directory: another value is
  refused at start.
- `group.share.assignors` names one assignor, and `group.share.max.share.sessions` must not be below
  `group.share.max.size`.

## Settings of one group, set while running

IncrementalAlterConfigs on resource type GROUP accepts these. They are checked against the bounds
above and survive a restart. Timeouts and intervals take effect at the group's next heartbeat; what
concerns records of share groups at once, for locks taken later, or when a partition is next loaded
(`share.auto.offset.reset`).

{groups}

## Settings of the broker, set while running

IncrementalAlterConfigs and AlterConfigs on resource type BROKER accept
{dynamic},
for the cluster (empty name) or for this broker, whose own value wins. `min.insync.replicas` is for
the cluster only. All survive a restart, win over `--set` and the file, and take effect at the next
use. Other settings, and all about TLS and logins, are refused with "Cannot update these configs
dynamically"; keys that mean nothing here are kept and [change nothing](compat.md#administration).

## Metrics that clients push

Clients push metrics of their own (KIP-714) once there is a subscription: IncrementalAlterConfigs on
resource type CLIENT_METRICS, which `kafka-client-metrics` does, accepts `metrics` (prefixes of
names, or `*`), `interval.ms` and `match` (`client_id`, `client_instance_id`,
`client_source_address`, each with a pattern). At most 100 subscriptions; they survive a restart.
Pushes are counted and shown under `/telemetry` of the admin port; what is in them is not read.

## Topic configs

Every topic config of Kafka's table is accepted, checked and shown, because tools set and compare
them. These act:

| config | default | meaning |
|---|---|---|
"""
    + topic_config_rows()
    + """
A topic's own value wins over the setting of the daemon, which wins over the default. A partition
has no segment files: its unit is the batch. So records are deleted batch by batch, as soon as the
newest record of the batch is too old, where Kafka waits for the whole segment; and the log may
become empty, as in Kafka, which closes its active segment when all of it is too old. A batch
whose records have no time goes by size only, and keeps those behind it. What Kafka's active
segment protects from compaction (the records of the last `segment.ms`, at most `segment.bytes` of
them) is not compacted here either: set `segment.ms` low to see compaction in a test. Retention
is looked at every `log.retention.check.interval.ms`, compaction every `log.cleaner.backoff.ms`.
"""
)


def config_page() -> str:
    """The whole of `docs/config.md`."""
    accepted = ", ".join(f"`{key}`" for key in WITHOUT_EFFECT)
    lines = [CONFIG_HEAD.replace("{without_effect}", accepted)]
    for title, entries in descriptions().items():
        lines += [f"## {title}", "", "| key | default | range | meaning | when to change it |"]
        lines.append("|---|---|---|---|---|")
        for key, about in entries.items():
            entry = FIELDS_BY_KEY[key]
            bounds = span(entry).replace("|", "\\|")
            value = setting_text(entry.default)
            default = f"`{value}`" if value else "not set"
            lines.append(f"| `{key}` | {default} | {bounds} | {about.meaning} | {about.why} |")
        lines.append("")
    dynamic = ", ".join(f"`{key}`" for key in sorted(DYNAMIC_KEYS))
    foot = CONFIG_FOOT.replace("{dynamic}", dynamic).replace("{groups}", group_config_rows())
    return "\n".join(lines).rstrip() + "\n" + foot


def group_config_rows() -> str:
    """A list of the settings of groups."""
    lines = []
    for name, key in sorted(group_configs().keys.items()):
        default = f"that of `{key.broker_key}`" if key.broker_key else f"`{key.default}`"
        shown = default if key.broker_key or key.default else "empty"
        lines.append(f"- `{name}`, by default {shown}: {key.documentation}")
    return "\n".join(lines)


def api_table() -> str:
    """The served APIs as a Markdown table, by key."""
    lines = ["| key | API | versions |", "|---:|---|---|"]
    for key, api in sorted(API_BY_KEY.items()):
        same = api.min_version == api.max_version
        versions = f"{api.min_version}" if same else f"{api.min_version}-{api.max_version}"
        lines.append(f"| {key} | {api.name} | {versions} |")
    return "\n".join(lines) + "\n"


def client_table() -> str:
    """A row for each library, with a number for the reason of each setting; then the reasons."""
    reasons: list[str] = []
    lines = ["| library | settings |", "|---|---|"]
    for name, library in LIBRARIES.items():
        settings = []
        for one in library.settings:
            if one.reason not in reasons:
                reasons.append(one.reason)
            scope = f", {one.protocol} groups" if one.protocol else ""
            number = reasons.index(one.reason) + 1
            settings.append(f"`{one.name}` = `{json.dumps(one.value)}` ({number}{scope})")
        lines.append(f"| {name} | {', '.join(settings)} |")
    lines += ["", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))]
    return "\n".join(lines) + "\n"


def pages() -> Mapping[Path, str]:
    """Path -> the content that it should have."""
    return {
        ROOT / "docs" / "config.md": config_page(),
        SERVE_PAGE: _with(SERVE_PAGE, API_TABLE, api_table()),
        TRACE_PAGE: _with(TRACE_PAGE, TRACE, trace()),
        ARCHITECTURE_PAGE: _with(ARCHITECTURE_PAGE, PACKAGES, picture()),
        TESTING_PAGE: _with(TESTING_PAGE, CLIENTS, client_table()),
        ROOT / "docs" / "openapi.json": json.dumps(document(), indent=2) + "\n",
    }


def _with(page: Path, between: re.Pattern[str], content: str) -> str:
    """The page with new content between the two marks that `between` finds."""
    return between.sub(lambda found: found[1] + content + found[2], page.read_text())


def main() -> int:
    stale = []
    for path, content in pages().items():
        if path.exists() and path.read_text() == content:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if "--check" not in sys.argv:
            path.write_text(content)
    print("\n".join(stale) or "all current")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
