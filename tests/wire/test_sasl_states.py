"""SaslHandshake and SaslAuthenticate where no authentication is under way
(`docs/spec/security.md#2.2`), over TCP.

Holds for a real broker too (GROUPD_PEER=kafka).
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from tests.support.peer import Peer
from tests.support.wire_client import WireClient


def test_a_listener_without_sasl_answers_and_goes_on(peer: Peer) -> None:
    """SE-21."""
    with WireClient(peer.host, peer.port) as client:
        for version in (0, 1):
            reply = client.call("SaslHandshake", version, mechanism="PLAIN")
            assert reply["error_code"] == ErrorCode.ILLEGAL_SASL_STATE
            assert reply["mechanisms"] == []
        for version in (0, 1, 2):
            reply = client.call("SaslAuthenticate", version, auth_bytes=b"\x00alice\x00secret")
            assert reply["error_code"] == ErrorCode.ILLEGAL_SASL_STATE
            assert reply["error_message"]
            assert reply["auth_bytes"] == b""
        served = client.call("ApiVersions", 0)
        assert served["error_code"] == 0
        ranges = {
            one["api_key"]: (one["min_version"], one["max_version"]) for one in served["api_keys"]
        }
        assert (ranges[17], ranges[36]) == ((0, 1), (0, 2))
