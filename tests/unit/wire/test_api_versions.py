"""ApiVersions: golden bytes and the answer to versions we do not know."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiRange, ApiVersionsReply, ApiVersionsRequest, Feature
from groupd.protocol.wire.api.api_versions import API_VERSIONS, unsupported_version_body
from groupd.protocol.wire.apis import API_BY_KEY, API_RANGES

REPLY = ApiVersionsReply(
    api_keys=(ApiRange(12, 0, 4), ApiRange(68, 0, 1)),
    features=(Feature("group.version", 1, 0, 1), Feature("metadata.version", 29, 7, 30)),
    features_epoch=3,
)


def test_sg_02_the_versions_of_share_groups() -> None:
    ranges = {one.api_key: (one.min_version, one.max_version) for one in API_RANGES}
    assert {key: ranges[key] for key in (76, 77, 78, 79, 90, 91, 92)} == {
        76: (1, 1),
        77: (1, 1),
        78: (1, 2),
        79: (1, 2),
        90: (0, 1),
        91: (0, 0),
        92: (0, 0),
    }


def test_v0_golden_bytes() -> None:
    assert API_VERSIONS.encode(REPLY, 0).hex(" ", 2) == (
        "0000 0000 0002 000c 0000 0004 0044 0000 0001"
    )


def test_v1_appends_throttle_time() -> None:
    assert API_VERSIONS.encode(REPLY, 1) == API_VERSIONS.encode(REPLY, 0) + bytes(4)


FEATURES_HEAD = "000003000c00000004000044000000010000000000"
FINALIZED = "022a" + "03" + "0e" + b"group.version".hex() + "00010001" + "00"
FINALIZED += "11" + b"metadata.version".hex() + "001d001d" + "00"
METADATA_SUPPORTED = "11" + b"metadata.version".hex() + "0007001e" + "00"
GROUP_SUPPORTED = "0e" + b"group.version".hex() + "00000001" + "00"
EPOCH = "0108" + "0000000000000003"


def test_v3_leaves_out_supported_features_with_minimum_0() -> None:
    """KAFKA-17011: older Java clients cannot read a minimum of 0. The finalized level stays."""
    supported = "0017" + "02" + METADATA_SUPPORTED
    expected = FEATURES_HEAD + "03" + supported + EPOCH + FINALIZED
    assert API_VERSIONS.encode(REPLY, 3).hex() == expected


def test_v4_has_every_supported_feature() -> None:
    supported = "002a" + "03" + GROUP_SUPPORTED + METADATA_SUPPORTED
    expected = FEATURES_HEAD + "03" + supported + EPOCH + FINALIZED
    assert API_VERSIONS.encode(REPLY, 4).hex() == expected


def test_absent_features_and_unknown_epoch_take_no_tag() -> None:
    reply = ApiVersionsReply(features_epoch=-1)
    assert API_VERSIONS.encode(reply, 4).hex() == "0000" + "01" + "00000000" + "00"


def test_feature_at_level_0_is_not_finalized() -> None:
    reply = ApiVersionsReply(features=(Feature("group.version", 0, 0, 1),), features_epoch=1)
    assert b"\x02" not in API_VERSIONS.encode(reply, 3)[7:]


def test_unknown_version_is_answered_with_v0_and_our_own_range() -> None:
    """KIP-511."""
    assert unsupported_version_body().hex(" ", 2) == "0023 0000 0001 0012 0000 0005"


def test_other_failures_carry_no_ranges() -> None:
    reply = API_VERSIONS.failure(ApiVersionsRequest(), ErrorCode.INVALID_REQUEST, None)
    assert reply == ApiVersionsReply(ErrorCode.INVALID_REQUEST, features_epoch=-1)


def test_every_api_is_advertised_once_in_order() -> None:
    assert [r.api_key for r in API_RANGES] == sorted(API_BY_KEY)
    for advertised in API_RANGES:
        api = API_BY_KEY[advertised.api_key]
        assert (advertised.min_version, advertised.max_version) == (
            api.min_version,
            api.max_version,
        )


def test_versions_of_the_group_apis() -> None:
    expected = {
        8: (2, 10, 8),
        9: (1, 10, 6),
        10: (0, 6, 3),
        11: (0, 9, 6),
        12: (0, 4, 4),
        13: (0, 5, 4),
        14: (0, 5, 4),
        15: (0, 6, 5),
        16: (0, 5, 3),
        18: (0, 5, 3),
        42: (0, 3, 2),
        68: (0, 1, 0),
        69: (0, 1, 0),
    }
    served = {
        key: (
            API_BY_KEY[key].min_version,
            API_BY_KEY[key].max_version,
            API_BY_KEY[key].flexible_from,
        )
        for key in expected
    }
    assert served == expected
    assert not API_BY_KEY[47].flexible(0)
