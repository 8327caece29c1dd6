"""DescribeConfigs and IncrementalAlterConfigs; topic settings and group overrides behind them."""

from __future__ import annotations

import pytest

from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY
from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.runtime.coordinator_types import SHARE_TOPIC, TRANSACTIONS_TOPIC
from groupd.coordinator.topics.broker_keys import DYNAMIC_KEYS, INTERNAL_KEYS, MIN_ISR
from groupd.coordinator.topics.topic_configs import TOPIC_CONFIGS
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    AlterConfig,
    AlterConfigsRequest,
    AlterResource,
    ConfigResource,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from groupd.storage.log import ConfigEntry, LogUnavailable
from groupd.storage.memory import MemoryStore

SET, DELETE, APPEND, SUBTRACT = range(4)


async def describe(cluster, resource_type, name, keys=None, allows=None, **fields):
    request = DescribeConfigsRequest((ConfigResource(resource_type, name, keys),), **fields)
    options = {} if allows is None else {"allows": allows}
    return (await cluster.ask(request, **options)).results[0]


async def alter(cluster, resource_type, name, *changes, validate_only=False, **options):
    resource = AlterResource(resource_type, name, tuple(AlterConfig(*c) for c in changes))
    request = IncrementalAlterConfigsRequest((resource,), validate_only)
    return (await cluster.ask(request, **options)).results[0].error


async def value(cluster, key, name="t"):
    (found,) = (await describe(cluster, RESOURCE_TOPIC, name, (key,))).configs
    return found.value, found.source, found.is_default


@pytest.mark.parametrize("name", TOPIC_CONFIGS.keys)
def test_every_default_is_valid(name):
    default = TOPIC_CONFIGS.keys[name].default
    assert TOPIC_CONFIGS.checked(name, default) == default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact,erase"),
        ("compression.type", "brotli"),
        ("max.message.bytes", "-1"),
        ("max.message.bytes", "2147483648"),
        ("max.message.bytes", "1k"),
        ("retention.ms", "-2"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("preallocate", "yes"),
        ("message.timestamp.type", "createtime"),
        ("no.such", "1"),
    ],
)
def test_invalid_values(name, value):
    with pytest.raises(ApiError) as caught:
        TOPIC_CONFIGS.checked(name, value)
    assert caught.value.code == ErrorCode.INVALID_CONFIG


async def test_describe_a_topic(cluster):
    await cluster.create("t", retention_ms="5")
    described = await describe(cluster, RESOURCE_TOPIC, "t")
    assert [found.name for found in described.configs] == sorted(TOPIC_CONFIGS.keys)
    assert all(found.documentation is None for found in described.configs)
    assert await value(cluster, "retention.ms") == ("5", 1, False)
    assert await value(cluster, "segment.ms") == ("604800000", 5, True)
    documented = await describe(cluster, RESOURCE_TOPIC, "t", (), include_documentation=True)
    assert len(documented.configs) == len(TOPIC_CONFIGS.keys)
    assert all(found.documentation for found in documented.configs)


async def test_brokers_settings_are_the_default(make_cluster):
    cluster = await make_cluster(MemoryStore(), message_max_bytes=5000).start()
    await cluster.create("t")
    assert await value(cluster, "max.message.bytes") == ("5000", 4, False)
    await alter(cluster, RESOURCE_TOPIC, "t", ("max.message.bytes", SET, "7000"))
    assert await value(cluster, "max.message.bytes") == ("7000", 1, False)
    await cluster.stop()


async def test_the_offsets_topic_is_compacted(cluster):
    assert (await value(cluster, "cleanup.policy", OFFSETS_TOPIC))[0] == "compact"
    changed = await alter(cluster, RESOURCE_TOPIC, OFFSETS_TOPIC, ("retention.ms", SET, "1"))
    assert changed == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_an_internal_setting_is_shown_once_it_is_set(make_cluster):  # KAFKA-20409
    key = "group.consumer.regex.refresh.interval.ms"
    assert key in INTERNAL_KEYS
    for interval_ms, source in ((600_000, None), (20_000, 4)):
        cluster = await make_cluster(
            MemoryStore(), consumer_regex_refresh_interval_ms=interval_ms
        ).start()
        described = await describe(cluster, RESOURCE_BROKER, "0", (key,))
        assert [one.source for one in described.configs] == ([source] if source else [])
        await cluster.stop()


async def test_describe_this_broker(cluster):
    described = await describe(cluster, RESOURCE_BROKER, "0", include_documentation=True)
    configs = {found.name: found for found in described.configs}
    assert set(configs) > set(FIELDS_BY_KEY) - INTERNAL_KEYS
    assert all(found.documentation for found in configs.values())
    assert {name for name, found in configs.items() if not found.read_only} == DYNAMIC_KEYS
    assert configs["advertised.listeners"].value == "PLAINTEXT://127.0.0.1:9092"
    assert (configs["broker.id"].value, configs["node.id"].value) == ("0", "0")
    assert configs["num.partitions"].value == "1"
    assert configs["auto.create.topics.enable"].value == "true"
    assert configs["auto.create.topics.enable"].config_type == 1
    assert configs["group.consumer.assignors"].value == "uniform,range"
    assert configs["group.consumer.assignors"].config_type == 7
    assert configs["num.partitions"].config_type == 3
    (of_cluster,) = (await describe(cluster, RESOURCE_BROKER, "")).configs
    assert (of_cluster.name, of_cluster.value, of_cluster.source) == (MIN_ISR, "1", 3)


async def test_a_changed_broker_setting_is_no_default(make_cluster):
    cluster = await make_cluster(MemoryStore(), num_partitions=3).start()
    (found,) = (await describe(cluster, RESOURCE_BROKER, "0", ("num.partitions",))).configs
    assert (found.value, found.source, found.is_default) == ("3", 4, False)
    await cluster.stop()


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (RESOURCE_TOPIC, "no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (RESOURCE_TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (RESOURCE_BROKER, "7", ErrorCode.INVALID_REQUEST),
        (RESOURCE_BROKER, "x", ErrorCode.INVALID_REQUEST),
        (RESOURCE_GROUP, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_unknown_resources(cluster, resource_type, name, code):
    assert (await describe(cluster, resource_type, name)).error == code
    assert await alter(cluster, resource_type, name, ("retention.ms", SET, "1")) == code


async def test_a_type_that_nobody_knows_fails_a_describe_as_a_whole_and_its_entry_of_an_alter(
    cluster,
):
    with pytest.raises(ApiError) as refused:
        await describe(cluster, 99, "x")
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    code = await alter(cluster, 99, "x", ("retention.ms", SET, "1"))
    assert code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("resource_type", "name", "resource", "code"),
    [
        (RESOURCE_TOPIC, "t", Resource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (RESOURCE_BROKER, "0", Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (RESOURCE_GROUP, "g", Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
async def test_configs_need_rights(cluster, resource_type, name, resource, code):
    asked = []

    def nothing(*wanted):
        asked.append(wanted)
        return False

    assert (await describe(cluster, resource_type, name, allows=nothing)).error == code
    assert await alter(cluster, resource_type, name, allows=nothing) == code
    assert [wanted[:2] for wanted in asked] == [
        (Operation.DESCRIBE_CONFIGS, resource),
        (Operation.ALTER_CONFIGS, resource),
    ]


async def test_set_and_delete(cluster):
    await cluster.create("t")
    changes = (("retention.ms", SET, "9"), ("preallocate", SET, "TRUE"))
    assert await alter(cluster, RESOURCE_TOPIC, "t", *changes, validate_only=True) == 0
    assert await value(cluster, "retention.ms") == ("604800000", 5, True)
    assert await alter(cluster, RESOURCE_TOPIC, "t", *changes) == ErrorCode.NONE
    assert await value(cluster, "retention.ms") == ("9", 1, False)
    assert await value(cluster, "preallocate") == ("true", 1, False)
    assert await alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", DELETE, None)) == 0
    assert await value(cluster, "retention.ms") == ("604800000", 5, True)
    await cluster.restart()
    assert await value(cluster, "preallocate") == ("true", 1, False)


async def test_append_and_subtract(cluster):
    await cluster.create("t")
    assert await alter(cluster, RESOURCE_TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == 0
    assert (await value(cluster, "cleanup.policy"))[0] == "delete,compact"
    assert await alter(cluster, RESOURCE_TOPIC, "t", ("cleanup.policy", APPEND, "delete")) == 0
    assert (await value(cluster, "cleanup.policy"))[0] == "delete,compact"
    assert await alter(cluster, RESOURCE_TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert (await value(cluster, "cleanup.policy"))[0] == "compact"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ((("no.such", SET, "1"),), ErrorCode.INVALID_CONFIG),
        ((("retention.ms", SET, "x"),), ErrorCode.INVALID_CONFIG),
        ((("retention.ms", SET, None),), ErrorCode.INVALID_REQUEST),
        ((("retention.ms", APPEND, "1"),), ErrorCode.INVALID_CONFIG),
        ((("retention.ms", 9, "1"),), ErrorCode.INVALID_REQUEST),
        ((("retention.ms", SET, "1"), ("retention.ms", DELETE, None)), ErrorCode.INVALID_REQUEST),
        ((("segment.ms", SET, "5"), ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_refused_changes_change_nothing(cluster, changes, code):
    await cluster.create("t")
    assert await alter(cluster, RESOURCE_TOPIC, "t", *changes) == code
    assert dict(cluster.plane.catalogue.topic("t").configs) == {}


def sizes(described):
    (found,) = described.configs
    return found.value, [(synonym.value, synonym.source) for synonym in found.synonyms]


async def test_what_clients_set_of_the_broker(make_cluster):
    cluster = await make_cluster(MemoryStore(), message_max_bytes=5000).start()
    key, topic = "message.max.bytes", RESOURCE_TOPIC
    await cluster.create("t")

    async def both():
        of_broker = await describe(cluster, RESOURCE_BROKER, "0", (key,), include_synonyms=True)
        of_topic = await describe(
            cluster, topic, "t", ("max.message.bytes",), include_synonyms=True
        )
        assert sizes(of_broker) == sizes(of_topic)
        return sizes(of_broker)

    static = [("5000", 4), ("1048588", 5)]
    assert await both() == ("5000", static)
    assert await alter(cluster, RESOURCE_BROKER, "", (key, SET, "100")) == ErrorCode.NONE
    assert await both() == ("100", [("100", 3), *static])
    assert (await cluster.produce("t", cluster.batch(b"x" * 200))).error == (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    assert await alter(cluster, RESOURCE_BROKER, "0", (key, SET, "4000")) == ErrorCode.NONE
    assert await both() == ("4000", [("4000", 2), ("100", 3), *static])
    assert (await cluster.produce("t", cluster.batch(b"x" * 200))).error == ErrorCode.NONE
    await cluster.restart()
    assert await both() == ("4000", [("4000", 2), ("100", 3), *static])
    for name, wanted in (("", (AlterConfig(MIN_ISR, SET, "1"),)), ("0", ())):
        reply = await cluster.ask(
            AlterConfigsRequest((AlterResource(RESOURCE_BROKER, name, wanted, replace=True),))
        )
        assert reply.results[0].error == ErrorCode.NONE
    assert await both() == ("5000", static)
    assert await cluster.store.configs() == []
    await cluster.stop()


async def test_verification_of_transactions_is_switched_off_while_running(cluster):
    await cluster.create("t")

    async def send():
        cluster.verifier.answers = [ErrorCode.INVALID_TXN_STATE]
        return (await cluster.send("t", b"a", version=11))[0]

    assert await send() == ErrorCode.INVALID_TXN_STATE
    key = "transaction.partition.verification.enable"
    assert await alter(cluster, RESOURCE_BROKER, "0", (key, SET, "false")) == ErrorCode.NONE
    assert await send() == ErrorCode.NONE


async def test_followers_are_told_of_the_settings_that_change(cluster):
    told = []
    cluster.plane.broker_configs.follow(told.append)
    key = "group.consumer.assignment.interval.ms"
    assert [values[key] for values in told] == ["1000"]
    assert await alter(cluster, RESOURCE_BROKER, "", (key, SET, "7")) == ErrorCode.NONE
    assert await alter(cluster, RESOURCE_BROKER, "", (key, DELETE, None)) == ErrorCode.NONE
    assert [values[key] for values in told] == ["1000", "7", "1000"]
    assert set(told[0]) == DYNAMIC_KEYS
    too_much = (key, SET, "15001")  # above group.consumer.max.assignment.interval.ms
    assert await alter(cluster, RESOURCE_BROKER, "", too_much) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["", "0"])
async def test_other_settings_of_the_broker_stay(cluster, name):
    for key in ("num.partitions", "log.dirs", "ssl.no.such"):
        change = (key, SET, "3")
        assert await alter(cluster, RESOURCE_BROKER, name, change) == ErrorCode.INVALID_REQUEST
        assert await alter(cluster, RESOURCE_BROKER, name, (key, DELETE, None)) == ErrorCode.NONE
    bad = ("message.max.bytes", SET, "-1")
    assert await alter(cluster, RESOURCE_BROKER, name, bad) == ErrorCode.INVALID_REQUEST
    assert await cluster.store.configs() == []


async def test_each_node_has_the_configs_of_its_own(cluster):
    cluster.nodes.append(Node(1, "127.0.0.1", 9093))
    change = ("message.max.bytes", SET, "100")
    assert await alter(cluster, RESOURCE_BROKER, "1", change) == ErrorCode.INVALID_REQUEST
    assert (await describe(cluster, RESOURCE_BROKER, "1", ("node.id",))).configs[0].value == "1"


async def test_what_was_set_under_other_bounds_is_ignored(make_cluster):
    store = MemoryStore()
    await store.start()
    await store.put_configs([ConfigEntry(RESOURCE_BROKER, "", "message.max.bytes", "-7")])
    await store.put_configs([ConfigEntry(RESOURCE_BROKER, "", "no.such.key", "1")])
    cluster = await make_cluster(store).start()
    assert cluster.plane.broker_configs.config == cluster.config
    await cluster.stop()


async def test_alter_configs_replaces(cluster):
    await cluster.create("t", retention_ms="5", segment_ms="7")
    changes = (AlterConfig("retention.ms", SET, "6"),)

    async def replace_all(**fields):
        asked = AlterResource(RESOURCE_TOPIC, "t", changes, replace=True)
        reply = await cluster.ask(AlterConfigsRequest((asked,), **fields))
        return reply.results[0].error

    assert await replace_all(validate_only=True) == ErrorCode.NONE
    assert await value(cluster, "segment.ms") == ("7", 1, False)
    assert await replace_all() == ErrorCode.NONE
    assert await value(cluster, "retention.ms") == ("6", 1, False)
    assert await value(cluster, "segment.ms") == ("604800000", 5, True)


async def test_a_resource_given_twice(cluster):
    await cluster.create("t")
    once = AlterResource(RESOURCE_TOPIC, "t", (AlterConfig("retention.ms", SET, "1"),))
    reply = await cluster.ask(IncrementalAlterConfigsRequest((once, once)))
    assert [result.error for result in reply.results] == [ErrorCode.INVALID_REQUEST]


TIMEOUT, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


async def group_value(cluster, group="g"):
    """(value, source) of the session timeout."""
    described = await describe(cluster, RESOURCE_GROUP, group)
    (found,) = (found for found in described.configs if found.name == TIMEOUT)
    return found.value, found.source


async def test_group_overrides_live_in_the_store(cluster):
    told = []
    cluster.plane.group_overrides.add_listener(lambda *change: told.append(change))
    assert await group_value(cluster) == ("45000", 5)
    change = (TIMEOUT, SET, "50000")
    assert await alter(cluster, RESOURCE_GROUP, "g", change, validate_only=True) == 0
    assert told == []
    assert await alter(cluster, RESOURCE_GROUP, "g", change) == ErrorCode.NONE
    assert told == [("g", {TIMEOUT: "50000"})]
    assert await group_value(cluster) == ("50000", 8)
    await cluster.restart()
    assert await group_value(cluster) == ("50000", 8)
    assert cluster.plane.group_overrides.all() == {"g": {TIMEOUT: "50000"}}
    assert await alter(cluster, RESOURCE_GROUP, "g", (TIMEOUT, DELETE, None)) == 0
    assert await cluster.store.configs() == []
    assert cluster.plane.group_overrides.all() == {}


async def test_a_refused_group_change(cluster):
    code = await alter(cluster, RESOURCE_GROUP, "g", ("no.such", SET, "1"))
    assert code == ErrorCode.INVALID_CONFIG
    assert await cluster.store.configs() == []


async def test_a_group_change_whose_outcome_is_unknown_is_read_again(cluster, monkeypatch):
    told = []
    cluster.plane.group_overrides.add_listener(lambda *change: told.append(change))
    put_configs = cluster.store.put_configs

    async def failing(changes):
        await put_configs(changes)
        raise LogUnavailable("gone")

    monkeypatch.setattr(cluster.store, "put_configs", failing)
    both = ((INTERVAL, SET, "6000"), (TIMEOUT, SET, "50000"))
    assert await alter(cluster, RESOURCE_GROUP, "g", *both) == ErrorCode.KAFKA_STORAGE_ERROR
    assert told == []
    monkeypatch.setattr(cluster.store, "put_configs", put_configs)
    assert await alter(cluster, RESOURCE_GROUP, "h", (TIMEOUT, SET, "51000")) == ErrorCode.NONE
    assert told == [("g", {INTERVAL: "6000", TIMEOUT: "50000"}), ("h", {TIMEOUT: "51000"})]


async def test_config_resources_are_listed_by_type(cluster):
    async def listed(*types, **options):
        return await cluster.ask(ListConfigResourcesRequest(types), **options)

    await cluster.create("t")
    assert await alter(cluster, RESOURCE_GROUP, "g", (TIMEOUT, SET, "50000")) == ErrorCode.NONE
    groups = ((RESOURCE_GROUP, "g"),)
    topics = tuple(
        (RESOURCE_TOPIC, name) for name in (OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC, "t")
    )
    broker = ((RESOURCE_BROKER, str(cluster.config.node_id)),)
    assert (await listed()).resources == groups + broker + topics
    assert (await listed(RESOURCE_TOPIC, RESOURCE_GROUP)).resources == groups + topics
    assert (await listed(RESOURCE_CLIENT_METRICS, RESOURCE_BROKER_LOGGER)).resources == ()
    assert await alter(cluster, RESOURCE_GROUP, "g", (TIMEOUT, DELETE, None)) == ErrorCode.NONE
    assert (await listed(RESOURCE_GROUP)).resources == ()

    with pytest.raises(ApiError) as refused:
        await listed(RESOURCE_GROUP, 64)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(ApiError) as refused:
        await listed(allows=lambda operation, *_: operation is not Operation.DESCRIBE_CONFIGS)
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
