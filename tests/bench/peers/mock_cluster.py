"""librdkafka's mock cluster, by its C interface: the library that confluent-kafka brings along."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka

PRODUCER = 0
TEXT_MAX = 512


def _load() -> ctypes.CDLL:
    """Loads it from `confluent_kafka.libs` of the wheel, which is mapped already: one library, not
    two."""
    package = Path(confluent_kafka.__file__).parent
    (path,) = (package.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")
    library = ctypes.CDLL(str(path))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    shapes: Mapping[str, tuple[Any, list[Any]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (number, [pointer, text, text, text, ctypes.c_size_t]),
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_set_group_consumer_heartbeat_interval_ms": (None, [pointer, number]),
    }
    for name, (result, arguments) in shapes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_LIBRARY = _load()


class MockCluster:
    """One broker in this process, on threads of librdkafka."""

    def __init__(self, topics: Mapping[str, int], *, heartbeat_ms: int) -> None:
        error = ctypes.create_string_buffer(TEXT_MAX)
        configuration = _LIBRARY.rd_kafka_conf_new()
        # Its handle is a client without brokers, which would say so.
        _LIBRARY.rd_kafka_conf_set(configuration, b"log_level", b"0", error, TEXT_MAX)
        self._handle = _LIBRARY.rd_kafka_new(PRODUCER, configuration, error, TEXT_MAX)
        if not self._handle:
            raise RuntimeError(error.value.decode())
        self._cluster = _LIBRARY.rd_kafka_mock_cluster_new(self._handle, 1)
        _LIBRARY.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)
        _LIBRARY.rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(self._cluster, heartbeat_ms)
        for name, partitions in topics.items():
            _LIBRARY.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        self.bootstrap: str = _LIBRARY.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def close(self) -> None:
        _LIBRARY.rd_kafka_mock_cluster_destroy(self._cluster)
        _LIBRARY.rd_kafka_destroy(self._handle)
