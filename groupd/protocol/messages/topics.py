"""Topic administration: CreateTopics (19), DeleteTopics (20), CreatePartitions (37),
DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.throttled import Throttled

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32


class NewTopic(Struct, frozen=True):
    """`partitions` and `replication_factor` -1 = the broker's default.

    `assignments`: partition -> node ids, if the request gives them; otherwise empty.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopicsRequest(Struct, frozen=True):
    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60000
    validate_only: bool = False


class ConfigSynonym(Struct, frozen=True):
    """A level at which a value is set or could be set. `source`: as in `ConfigValue`."""

    name: str
    value: str | None
    source: int


class ConfigValue(Struct, frozen=True):
    """`source` as in DescribeConfigs: 1 topic, 2/3 dynamic broker, 4 static broker, 5 default, 8
    group. `config_type`: 1 boolean, 2 string, 3 int, 5 long, 7 list, 8 class. `synonyms`: in the
    order of precedence."""

    name: str
    value: str | None
    read_only: bool = False
    is_default: bool = True
    source: int = 5
    sensitive: bool = False
    config_type: int = 0
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()


class CreatedTopic(Struct, frozen=True):
    name: str
    topic_id: TopicId = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Sequence[ConfigValue] = ()
    config_error: ErrorCode = ErrorCode.NONE
    """The error code that says why `configs` are missing although the topic was created."""


class CreateTopicsReply(Throttled, frozen=True):
    topics: Sequence[CreatedTopic]


class DeleteTopicsRequest(Struct, frozen=True):
    """A topic is given by name, or from v6 by id with name None."""

    topics: tuple[tuple[str | None, TopicId], ...]
    timeout_ms: int = 60000


class DeletedTopic(Struct, frozen=True):
    name: str | None
    topic_id: TopicId = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class DeleteTopicsReply(Throttled, frozen=True):
    topics: Sequence[DeletedTopic]


class GrownTopic(Struct, frozen=True):
    """`assignments`: the replicas (node ids) of each added partition; None = the broker decides."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitionsRequest(Struct, frozen=True):
    topics: tuple[GrownTopic, ...]
    timeout_ms: int = 60000
    validate_only: bool = False


class CreatePartitionsResult(Struct, frozen=True):
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class CreatePartitionsReply(Throttled, frozen=True):
    results: Sequence[CreatePartitionsResult]


class ConfigResource(Struct, frozen=True):
    """`keys` None = all keys."""

    resource_type: int
    name: str
    keys: tuple[str, ...] | None = None


class DescribeConfigsRequest(Struct, frozen=True):
    resources: tuple[ConfigResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


class DescribedConfigs(Struct, frozen=True):
    """`configs` may be a `Lazily`."""

    resource_type: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    configs: Sequence[ConfigValue] = ()


class DescribeConfigsReply(Struct, frozen=True):
    results: Sequence[DescribedConfigs]


class AlterConfig(Struct, frozen=True):
    """`operation`: 0 set, 1 delete, 2 append, 3 subtract."""

    name: str
    operation: int
    value: str | None


class AlterResource(Struct, frozen=True):
    """`replace`: keys that are not named are reset to their defaults (AlterConfigs)."""

    resource_type: int
    name: str
    configs: tuple[AlterConfig, ...]
    replace: bool = False


class IncrementalAlterConfigsRequest(Struct, frozen=True):
    resources: tuple[AlterResource, ...]
    validate_only: bool = False


class AlterConfigsRequest(Struct, frozen=True):
    """Every operation is a "set", and every resource is replaced."""

    resources: tuple[AlterResource, ...]
    validate_only: bool = False


class AlteredResource(Struct, frozen=True):
    resource_type: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class AlterConfigsReply(Struct, frozen=True):
    """The reply of AlterConfigs and of IncrementalAlterConfigs."""

    results: Sequence[AlteredResource]


class ListConfigResourcesRequest(Struct, frozen=True):
    """Empty `resource_types` = all types."""

    resource_types: tuple[int, ...] = ()


class ListConfigResourcesReply(Struct, frozen=True):
    """`resources`: (type, name)."""

    error: ErrorCode = ErrorCode.NONE
    resources: tuple[tuple[int, str], ...] = ()
