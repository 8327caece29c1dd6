"""Subjects of certificates as text. The expected texts were made once with Java 17's
`X500Principal.getName()` (SE-07)."""

from __future__ import annotations

import pytest

from groupd.coordinator.security.der import MalformedCertificate
from groupd.coordinator.security.distinguished_names import name_of

VECTORS = [
    (
        "302c310b3009060355040613024445310d300b060355040a0c0441636d65310e300c06035504030c05616c696365",
        "CN=alice,O=Acme,C=DE",
    ),
    (
        "30263114301206092a864886f70d01090116056140622e63310e300c06035504030c05616c696365",
        "CN=alice,1.2.840.113549.1.9.1=#16056140622e63",
    ),
    (
        "303331133011060355040a0c0a41636d652c20496e632e311c300806035504030c01783010060a0992268993f22c6401010c027531",
        "CN=x+UID=u1,O=Acme\\, Inc.",
    ),
    (
        "301e311c3010060a0992268993f22c6401010c027531300806035504030c0178",
        "UID=u1+CN=x",
    ),
    (
        "3081b2310a300806035504030c0176310a300806035504060c0176310a300806035504070c0176310a300806035504080c0176310a300806035504090c0176310a3008060355040a0c0176310a3008060355040b0c01763111300f060a0992268993f22c6401010c01763111300f060a0992268993f22c6401190c0176310a300806035504050c0176310a3008060355040c0c0176310a300806038837030c017631123010060b2b0601040182373c0201030c0176",
        "1.3.6.1.4.1.311.60.2.1.3=#0c0176,2.999.3=#0c0176,2.5.4.12=#0c0176,2.5.4.5=#0c0176,DC=v,UID=v,OU=v,O=v,STREET=v,ST=v,L=v,C=v,CN=v",
    ),
    (
        "302c312a302806035504030c21206c656164202320616e64203d202b203c203e203b2022205c20747261696c2020",
        'CN=\\ lead \\# and \\= \\+ \\< \\> \\; \\" \\\\ trail\\ \\ ',
    ),
    (
        "3010310e300c06035504030c052368617368",
        "CN=\\#hash",
    ),
    (
        "3010310e300c06035504030c056123623d63",
        "CN=a\\#b\\=c",
    ),
    (
        "300e310c300a06035504030c03202020",
        "CN=\\ \\ \\ ",
    ),
    (
        "300b3109300706035504030c00",
        "CN=",
    ),
    (
        "3021311f301d06035504030c164ac3bc7267656e20c39820e69db1e4baac20f09f9880",
        "CN=Jürgen Ø 東京 😀",
    ),
    (
        "3011310f300d06035504030c0661006209647f",
        "CN=a\\00b\td\x7f",
    ),
    (
        "3011310f300d060355040314064afc7267656e",
        "CN=J�rgen",
    ),
    (
        "300f310d300b06035504031e0400610062",
        "CN=\\00a\\00b",
    ),
    (
        "30133111300f06035504031c080000006100000062",
        "CN=#1c080000006100000062",
    ),
    (
        "300e310c300a060355040312036e756d",
        "CN=#12036e756d",
    ),
    (
        "300e310c300a06035504031a03766973",
        "CN=#1a03766973",
    ),
    (
        "300e310c300a06035504031b0367656e",
        "CN=gen",
    ),
    (
        "300d310b3009060355040304020102",
        "CN=#04020102",
    ),
    (
        "300e310c300a06035504031603696135",
        "CN=ia5",
    ),
    (
        "3000",
        "",
    ),
    (
        "3081d63181d33081d006035504030c81c87878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878",
        "CN=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        "304531133011060a0992268993f22c6401191603636f6d31173015060a0992268993f22c64011916076578616d706c653115301306035504030c0c612f623a6327642865292a3f",
        "CN=a/b:c'd(e)*?,DC=example,DC=com",
    ),
    (
        "300d310b300906035504030c02fffe",
        "CN=��",
    ),
    (
        "3020311e3008060355040a0c0162300806035504030c01613008060355040b0c0163",
        "O=b+CN=a+OU=c",
    ),
    (
        "3019310a300806035504030c0120310b3009060355040a0c022078",
        "O=\\ x,CN=\\ ",
    ),
]


@pytest.mark.parametrize(("der", "text"), VECTORS)
def test_as_java_prints_it(der: str, text: str) -> None:
    assert name_of(bytes.fromhex(der)) == text


def test_a_name_that_is_cut_off_is_refused() -> None:
    whole = bytes.fromhex(VECTORS[0][0])
    for length in range(1, len(whole)):
        with pytest.raises(MalformedCertificate):
            name_of(whole[:length])
