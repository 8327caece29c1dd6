"""One small admin interface over every client's own: what `test_admin.py` asks of each of them.

Errors come out as Kafka's names (`TOPIC_ALREADY_EXISTS`) in `AdminError`; what a client cannot do
raises NotImplementedError and is left out by the tests' parameters.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.errors import for_code as aio_for_code
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka import TopicPartition as PyTopicPartition
from kafka.admin import ConfigResource as PyConfigResource
from kafka.admin import ConfigResourceType as PyConfigResourceType
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError as PyKafkaError
from kafka.structs import OffsetAndMetadata as PyOffsetAndMetadata

from tests.support.process import ChildProcess, wait_until
from tests.support.toolchain import java_driver

Offsets = dict[tuple[str, int], int]
T = TypeVar("T")
TIMEOUT_S = 20.0


class AdminError(Exception):
    """`str()` is Kafka's name of the error."""


class ConfluentAdmin:
    """librdkafka's AdminClient."""

    def __init__(self, bootstrap: str, _: Path) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def _result(self, future: Any) -> Any:
        try:
            return future.result(TIMEOUT_S)
        except KafkaException as error:
            raise AdminError(error.args[0].name()) from error

    def create_topic(self, name: str, partitions: int) -> None:
        self._result(self._admin.create_topics([NewTopic(name, partitions)])[name])

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def partition_count(self, name: str) -> int:
        found = self._result(self._admin.describe_topics(TopicCollection([name]))[name])
        return len(found.partitions)

    def grow_topic(self, name: str, partitions: int) -> None:
        self._result(self._admin.create_partitions([NewPartitions(name, partitions)])[name])

    def delete_topic(self, name: str) -> None:
        self._result(self._admin.delete_topics([name])[name])

    def topic_config(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        found = self._result(self._admin.describe_configs([resource])[resource])
        return {key: entry.value for key, entry in found.items()}

    def set_topic_config(self, name: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        self._result(self._admin.incremental_alter_configs([resource])[resource])

    def list_groups(self) -> set[str]:
        return {group.group_id for group in self._result(self._admin.list_consumer_groups()).valid}

    def describe_group(self, group: str) -> tuple[str, int]:
        found = self._result(self._admin.describe_consumer_groups([group])[group])
        return found.state.name, len(found.members)

    def delete_group(self, group: str) -> None:
        self._result(self._admin.delete_consumer_groups([group])[group])

    def list_offsets(self, group: str) -> Offsets:
        asked = ConsumerGroupTopicPartitions(group)
        found = self._result(self._admin.list_consumer_group_offsets([asked])[group])
        return {(at.topic, at.partition): at.offset for at in found.topic_partitions}

    def alter_offsets(self, group: str, offsets: Offsets) -> None:
        parts = [TopicPartition(*at, offset) for at, offset in offsets.items()]
        asked = ConsumerGroupTopicPartitions(group, parts)
        done = self._result(self._admin.alter_consumer_group_offsets([asked])[group])
        for at in done.topic_partitions:
            if at.error is not None:
                raise AdminError(at.error.name())


class KafkaPythonAdmin:
    """kafka-python's KafkaAdminClient."""

    def __init__(self, bootstrap: str, _: Path) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._admin.close()

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except PyKafkaError as error:
            raise AdminError(_screaming(type(error).__name__)) from error

    def create_topic(self, name: str, partitions: int) -> None:
        self._call(lambda: self._admin.create_topics({name: {"num_partitions": partitions}}))

    def list_topics(self) -> set[str]:
        return set(self._call(self._admin.list_topics))

    def partition_count(self, name: str) -> int:
        (found,) = self._call(lambda: self._admin.describe_topics([name]))
        return len(found["partitions"])

    def grow_topic(self, name: str, partitions: int) -> None:
        self._call(lambda: self._admin.create_partitions({name: partitions}))

    def delete_topic(self, name: str) -> None:
        self._call(lambda: self._admin.delete_topics([name]))

    def topic_config(self, name: str) -> dict[str, str]:
        resource = PyConfigResource(PyConfigResourceType.TOPIC, name)
        found = self._call(lambda: self._admin.describe_configs([resource], config_filter="all"))
        return {key: entry["value"] for key, entry in found["topic"][name].items()}

    def set_topic_config(self, name: str, key: str, value: str) -> None:
        resource = PyConfigResource(PyConfigResourceType.TOPIC, name, configs={key: value})
        self._call(lambda: self._admin.alter_configs([resource]))

    def list_groups(self) -> set[str]:
        return {group["group_id"] for group in self._call(self._admin.list_groups)}

    def describe_group(self, group: str) -> tuple[str, int]:
        found = self._call(lambda: self._admin.describe_groups([group]))[group]
        if found["error"]:
            raise AdminError(found["error"])
        return found["group_state"], len(found["members"])

    def delete_group(self, group: str) -> None:
        found = self._call(lambda: self._admin.delete_groups([group]))
        if found[group] != "OK":
            raise AdminError(_screaming(str(found[group])))

    def list_offsets(self, group: str) -> Offsets:
        found = self._call(lambda: self._admin.list_group_offsets(group))
        return {(at.topic, at.partition): value.offset for at, value in found[group].items()}

    def alter_offsets(self, group: str, offsets: Offsets) -> None:
        asked = {
            PyTopicPartition(*at): PyOffsetAndMetadata(value, "", -1)
            for at, value in offsets.items()
        }
        for error in self._call(lambda: self._admin.alter_group_offsets(group, asked)).values():
            if error.errno:
                raise AdminError(_screaming(error.__name__))


class AiokafkaAdmin:
    """aiokafka's AIOKafkaAdminClient, on an event loop of its own.

    It cannot delete groups, nor alter configs the incremental way; offsets are altered by a
    consumer that commits.
    """

    def __init__(self, bootstrap: str, _: Path) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        self._admin = self._run(self._start())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    async def _start(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        return admin

    def close(self) -> None:
        self._run(self._admin.close())
        self._loop.close()

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise AdminError(_screaming(aio_for_code(code).__name__))

    def create_topic(self, name: str, partitions: int) -> None:
        done = self._run(self._admin.create_topics([AioNewTopic(name, partitions, 1)]))
        self._check(done.topic_errors[0][1])

    def list_topics(self) -> set[str]:
        return set(self._run(self._admin.list_topics()))

    def partition_count(self, name: str) -> int:
        (found,) = self._run(self._admin.describe_topics([name]))
        self._check(found["error_code"])
        return len(found["partitions"])

    def grow_topic(self, name: str, partitions: int) -> None:
        self._run(self._admin.create_partitions({name: AioNewPartitions(partitions)}))

    def delete_topic(self, name: str) -> None:
        done = self._run(self._admin.delete_topics([name]))
        self._check(done.topic_error_codes[0][1])

    def topic_config(self, name: str) -> dict[str, str]:
        resource = AioConfigResource(AioConfigResourceType.TOPIC, name)
        (found,) = self._run(self._admin.describe_configs([resource]))
        (shown,) = found.resources
        return {entry[0]: entry[1] for entry in shown[4]}

    def set_topic_config(self, name: str, key: str, value: str) -> None:
        raise NotImplementedError

    def list_groups(self) -> set[str]:
        return {group[0] for group in self._run(self._admin.list_consumer_groups())}

    def describe_group(self, group: str) -> tuple[str, int]:
        (found,) = self._run(self._admin.describe_consumer_groups([group]))
        (shown,) = found.groups
        return shown[2], len(shown[5])

    def delete_group(self, group: str) -> None:
        raise NotImplementedError

    def list_offsets(self, group: str) -> Offsets:
        found = self._run(self._admin.list_consumer_group_offsets(group))
        return {(at.topic, at.partition): value.offset for at, value in found.items()}

    async def _commit(self, group: str, offsets: Offsets) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            parts = {AioTopicPartition(*at): offset for at, offset in offsets.items()}
            consumer.assign(list(parts))
            await consumer.commit(parts)
        finally:
            await consumer.stop()

    def alter_offsets(self, group: str, offsets: Offsets) -> None:
        self._run(self._commit(group, offsets))


class JavaAdmin:
    """The Java Admin, in the driver's process."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._process = ChildProcess(
            [*java_driver(), "admin", "--bootstrap", bootstrap],
            stderr_path=directory / "java-admin.log",
            env=dict(os.environ),
        )

    def close(self) -> None:
        self._process.close()

    def call(self, op: str, **fields: object) -> Any:
        """One command of AdminCommand.java."""
        before = len(self._process.stdout_lines)
        self._process.write_line(json.dumps({"op": op, **fields}))
        wait_until(
            lambda: len(self._process.stdout_lines) > before or not self._process.running,
            TIMEOUT_S + 10,
            f"the answer to {op}",
            self._process.output,
        )
        answer = json.loads(self._process.stdout_lines[before])
        if "error" in answer:
            raise AdminError(answer["error"])
        return answer["result"]

    def create_topic(self, name: str, partitions: int) -> None:
        self.call("create_topics", topics={name: partitions})

    def list_topics(self) -> set[str]:
        return set(self.call("list_topics"))

    def partition_count(self, name: str) -> int:
        found: int = self.call("describe_topic", topic=name)["partitions"]
        return found

    def grow_topic(self, name: str, partitions: int) -> None:
        self.call("grow_topic", topic=name, partitions=partitions)

    def delete_topic(self, name: str) -> None:
        self.call("delete_topics", topics=[name])

    def topic_config(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.call("describe_config", name=name)
        return found

    def set_topic_config(self, name: str, key: str, value: str) -> None:
        self.call("alter_config", name=name, configs={key: value})

    def list_groups(self) -> set[str]:
        return set(self.call("list_groups"))

    def describe_group(self, group: str) -> tuple[str, int]:
        found = self.call("describe_group", group=group)
        return found["state"], len(found["members"])

    def delete_group(self, group: str) -> None:
        self.call("delete_group", group=group)

    def list_offsets(self, group: str) -> Offsets:
        found = self.call("list_offsets", group=group)
        return {(topic, part): offset for topic, part, offset in found}

    def alter_offsets(self, group: str, offsets: Offsets) -> None:
        self.call(
            "alter_offsets", group=group, offsets=[[*at, value] for at, value in offsets.items()]
        )


def _screaming(name: str) -> str:
    """TopicAlreadyExistsError -> TOPIC_ALREADY_EXISTS."""
    stem = name.rsplit(".", 1)[-1].removesuffix("Error")
    return "".join(f"_{char}" if char.isupper() else char for char in stem).lstrip("_").upper()


Admin = ConfluentAdmin | KafkaPythonAdmin | AiokafkaAdmin | JavaAdmin
ADMINS: dict[str, type[Admin]] = {
    "confluent": ConfluentAdmin,
    "java": JavaAdmin,
    "kafka_python": KafkaPythonAdmin,
    "aiokafka": AiokafkaAdmin,
}
