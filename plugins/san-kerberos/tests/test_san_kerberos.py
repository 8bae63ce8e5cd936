"""Kerberos names byte for byte (RFC 4556 s3.2.2), and which of them a profile adds."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from greatseal import der
from greatseal.api.acme import AccountView, BadCsr, Identifier, RejectedIdentifier, Unauthorized
from greatseal.api.issuance import IssuanceRequest
from greatseal.testing.finalization import SanInjectorContract
from greatseal.testing.issuance import csr_for, issuance_for
from greatseal_san_kerberos.names import KRB5_PRINCIPAL_NAME, MS_UPN, KerberosSans
from greatseal_san_kerberos.plugin import Plugin
from greatseal_san_kerberos.principals import encoded, name_type, parse
from greatseal_san_kerberos.settings import KerberosNames

ACCOUNT = AccountView(id="a1", url="https://ca.example/acme/account/a1", status="valid", thumbprint="t" * 43)
ALICE = msgspec.structs.replace(ACCOUNT, kerberos_principal="alice@EXAMPLE.COM")
WEB = Identifier("dns", "web.example.com")

GIVEN = json.loads((Path(__file__).parent / "vectors.json").read_text())
VECTORS = {
    "alice@EXAMPLE.COM": "3023a00d1b0b4558414d504c452e434f4da1123010a003020101a10930071b05616c696365",
    "HTTP/web.example.com@EXAMPLE.COM": (
        "3033a00d1b0b4558414d504c452e434f4da1223020a003020103a11930171b04485454501b0f7765622e6578616d706c652e636f6d"
    ),
}


def names(issuance: IssuanceRequest, **settings: Any) -> list[x509.GeneralName]:
    return list(KerberosSans({"default": KerberosNames(**settings)}).names(issuance))


def kpn(text: str) -> x509.OtherName:
    return x509.OtherName(KRB5_PRINCIPAL_NAME, encoded(parse(text)))


def upn(text: str) -> x509.OtherName:
    return x509.OtherName(MS_UPN, der.element(0x0C, text.encode()))


class TestKerberosSans(SanInjectorContract):
    gives = issuance_for(WEB, account=ALICE)
    silent = issuance_for(WEB, account=ALICE, profile=msgspec.structs.replace(gives.profile, id="other"))
    refuses = issuance_for(WEB, account=ACCOUNT)

    def injector(self) -> KerberosSans:
        settings = KerberosNames(inject_account_kpn=True, kpn_san_templates=("HTTP/{dns}@R", "alice@EXAMPLE.COM"))
        return KerberosSans({"default": settings, "other": KerberosNames()})


# ---- principals


@pytest.mark.parametrize("text", VECTORS)
def test_a_principal_is_encoded_as_rfc_4556_says(text: str) -> None:
    assert encoded(parse(text)).hex() == VECTORS[text]


def test_the_general_names_of_a_person() -> None:
    assert x509.SubjectAlternativeName([kpn("alice@EXAMPLE.COM")]).public_bytes().hex() == (
        "3031a02f06062b0601050202a0253023a00d1b0b4558414d504c452e434f4da1123010a003020101a10930071b05616c696365"
    )
    assert x509.SubjectAlternativeName([upn("alice@example.com")]).public_bytes().hex() == (
        "3023a021060a2b060104018237140203a0130c11616c696365406578616d706c652e636f6d"
    )


@pytest.mark.parametrize("vector", GIVEN, ids=lambda one: one["case"])
def test_each_extension_is_that_of_the_vectors(vector: dict[str, str]) -> None:
    makers: dict[str, Callable[[str], x509.GeneralName]] = {"dns": x509.DNSName, "principal": kpn, "upn": upn}

    made = [make(vector[kind]) for kind, make in makers.items() if kind in vector]

    assert x509.SubjectAlternativeName(made).public_bytes().hex() == vector["subject_alt_name"]


@pytest.mark.parametrize("text", ["ä@R", "a\n@R", "a\0@R"])
def test_s141_what_a_certificate_cannot_hold_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match="ASCII"):
        parse(text)


def test_one_component_is_nt_principal_and_more_are_nt_srv_hst() -> None:
    assert [name_type(parse(text)) for text in ("a@R", r"a\/b@R", "a/b@R", "a/b/c@R")] == [1, 1, 3, 3]


@given(st.text("/@\\abä\n", max_size=40))
def test_any_text_is_a_principal_or_a_reason(text: str) -> None:
    with suppress(ValueError):
        assert len(der.children(encoded(parse(text)))) == 2


# ---- profiles


def test_the_plugin_adds_names_by_its_settings() -> None:
    assert [owned.section for owned in Plugin().settings()] == ["profiles.*"]


def test_a_profile_that_says_nothing_of_kerberos_gets_no_names() -> None:
    assert list(KerberosSans({}).names(issuance_for(WEB, account=ALICE))) == names(issuance_for(WEB, account=ALICE)) == []


def test_ca_050_ca_183_ca_184_a_template_with_a_place_gives_one_name_for_every_dns_name() -> None:
    issuance = issuance_for(Identifier("dns", "b.example"), Identifier("ip", "192.0.2.1"), Identifier("dns", "a.example"))

    assert names(issuance, kpn_san_templates=("HTTP/{dns}@R", "{dns}@R")) == [
        kpn("HTTP/b.example@R"), kpn("HTTP/a.example@R"), kpn("b.example@R"), kpn("a.example@R"),
    ]  # fmt: skip


def test_ca_184_the_name_types() -> None:
    service, host = names(issuance_for(WEB), kpn_san_templates=("HTTP/{dns}@EXAMPLE.COM", "{dns}@EXAMPLE.COM"))

    assert isinstance(service, x509.OtherName)
    assert isinstance(host, x509.OtherName)
    assert service.value.hex() == VECTORS["HTTP/web.example.com@EXAMPLE.COM"]
    assert bytes.fromhex("a003020101") in host.value


def test_ca_185_a_template_without_a_place_gives_one_name() -> None:
    several = issuance_for(WEB, Identifier("dns", "a.example"))
    none = issuance_for(Identifier("email", "a@a.example"))

    for issuance in (several, none):
        assert names(issuance, kpn_san_templates=("alice@R",)) == [kpn("alice@R")]
    assert names(none, kpn_san_templates=("HTTP/{dns}@R",)) == []


def test_ca_051_ca_186_the_user_principal_name_is_of_the_first_dns_name_of_the_request() -> None:
    first, second = Identifier("dns", "a.example"), Identifier("dns", "b.example")
    issuance = msgspec.structs.replace(issuance_for(first, second), csr=csr_for(Identifier("dns", "B.example"), first))

    assert names(issuance, ms_upn_san_template="{dns}@corp.example") == [upn("b.example@corp.example")]
    assert names(issuance, ms_upn_san_template="host.{dns}@{dns}") == [upn("host.b.example@b.example")]
    assert names(issuance, ms_upn_san_template="alice@corp.example") == [upn("alice@corp.example")]
    without = msgspec.structs.replace(issuance, csr=csr_for())
    assert names(without, ms_upn_san_template="{dns}@corp.example") == [upn("a.example@corp.example")], "names of the subject alone"


def test_ca_186_without_a_dns_name_there_is_none_to_put_in() -> None:
    mail = issuance_for(Identifier("email", "a@a.example"))

    with pytest.raises(BadCsr, match="first DNS name"):
        names(mail, ms_upn_san_template="{dns}@corp.example")
    assert names(mail, ms_upn_san_template="alice@corp.example")


def test_ca_049_ca_187_the_principal_of_the_account() -> None:
    service = msgspec.structs.replace(ACCOUNT, kerberos_principal="HTTP/web.example.com@EXAMPLE.COM")

    assert names(issuance_for(WEB, account=ALICE), inject_account_kpn=True) == [kpn("alice@EXAMPLE.COM")]
    (found,) = names(issuance_for(WEB, account=service), inject_account_kpn=True)
    assert isinstance(found, x509.OtherName)
    assert found.value.hex() == VECTORS["HTTP/web.example.com@EXAMPLE.COM"]
    assert names(issuance_for(WEB, account=ALICE), kpn_san_templates=("bob@R",)) == [kpn("bob@R")]


@pytest.mark.parametrize("principal", [None, "alice", "ä@R", "a//b@R"])
def test_s141_ca_187_an_account_without_a_principal_that_can_be_certified_is_refused(principal: str | None) -> None:
    account = msgspec.structs.replace(ACCOUNT, kerberos_principal=principal)

    for asking in (account, None):
        with pytest.raises(Unauthorized):
            names(issuance_for(WEB, account=asking), inject_account_kpn=True)


@pytest.mark.parametrize("name", ["*.example.com", "a/b.example", "a@b", "x\\", "a.example@EVIL", "", "a..b", "{dns}"])
def test_s141_no_name_of_an_order_makes_another_principal(name: str) -> None:
    issuance = msgspec.structs.replace(issuance_for(WEB), identifiers=(Identifier("dns", name),))

    for settings in ({"kpn_san_templates": ("HTTP/{dns}@R",)}, {"ms_upn_san_template": "{dns}@corp.example"}):
        with pytest.raises(RejectedIdentifier) as refused:
            names(issuance, **settings)
        assert refused.value.identifier == {"type": "dns", "value": name}
    assert names(issuance, kpn_san_templates=("alice@R",)) == [kpn("alice@R")]


# ---- settings


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"kpn_san_templates": ("HTTP/{dns}",)}, "no @"),
        ({"kpn_san_templates": ("HTTP/@R",)}, "empty component"),
        ({"kpn_san_templates": ("HTTP/{host}@R",)}, "{host} stands for nothing"),
        ({"kpn_san_templates": ("HTTP/{dns@R",)}, "{dns@R stands for nothing"),
        ({"kpn_san_templates": ("HTTP/dns}@R",)}, "} stands for nothing"),
        ({"kpn_san_templates": ("a@{dns}",)}, "in the realm"),
        ({"kpn_san_templates": ("ä@R",)}, "ASCII"),
        ({"ms_upn_san_template": "alice"}, "one @"),
        ({"ms_upn_san_template": "@corp"}, "one @"),
        ({"ms_upn_san_template": "a@"}, "one @"),
        ({"ms_upn_san_template": "a@b@c"}, "one @"),
        ({"ms_upn_san_template": "a b@c"}, "no blanks"),
        ({"ms_upn_san_template": "a\n@c"}, "no blanks"),
        ({"ms_upn_san_template": "a\a@c"}, "no blanks"),
        ({"ms_upn_san_template": "a" * 1024 + "@c"}, "1024"),
        ({"ms_upn_san_template": "{host}@c"}, "{host} stands for nothing"),
    ],
)
def test_a_template_that_cannot_be_is_one_line(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)) as refused:
        KerberosNames(**settings)
    assert str(refused.value).startswith(f"{next(iter(settings))}: ")


def test_every_template_that_cannot_be_is_told() -> None:
    with pytest.raises(ValueError, match=r"^kpn_san_templates: 'a': .*; kpn_san_templates: 'b': .*; ms_upn_san_template: 'c': "):
        KerberosNames(kpn_san_templates=("a", "b"), ms_upn_san_template="c")
