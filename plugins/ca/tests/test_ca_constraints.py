"""What the certificates of a CA that is brought let it certify (RFC 5280 s4.2.1.9 to 12): at the start, for an order, at the lint."""

import ipaddress

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec.structs import replace

from greatseal.api.acme import Identifier, RejectedIdentifier
from greatseal.api.problems import Internal
from greatseal_ca.lint import lint

SERVER, CLIENT, ANY = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE


def dns(*names):
    return [x509.DNSName(name) for name in names]


def mail(*names):
    return [x509.RFC822Name(name) for name in names]


def net(*names):
    return [x509.IPAddress(ipaddress.ip_network(name)) for name in names]


def directory(**attributes):
    oids = {"o": NameOID.ORGANIZATION_NAME, "cn": NameOID.COMMON_NAME}
    return [x509.DirectoryName(x509.Name([x509.NameAttribute(oids[name], value) for name, value in attributes.items()]))]


def names(permitted=None, excluded=None):
    return x509.NameConstraints(permitted or None, excluded or None), True


def usages(*oids):
    return x509.ExtendedKeyUsage(oids), False


# ---- Refused at the start


@pytest.mark.parametrize(
    ("issuing", "root", "word"),
    [
        ({}, {"path_length": 0}, "CN=root: its pathLenConstraint allows 0 CAs below it, and there is 1 CA"),
        ({"with": [usages(CLIENT)]}, {}, "its extended key usages do not allow serverAuth of [profiles.default] eku"),
        ({}, {"with": [usages(CLIENT)]}, "do not allow serverAuth"),
        ({"with": [usages(SERVER, CLIENT)]}, {"with": [usages(CLIENT)]}, "do not allow serverAuth"),
        ({"with": [(x509.PolicyConstraints(0, None), True)]}, {}, "CN=issuing: policyConstraints ask for certificate policies"),
        (
            {"with": [(x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"), True)]},
            {},
            "CN=issuing: the critical extension 1.2.3.4 is not understood",
        ),
        (
            {"with": [(x509.AuthorityKeyIdentifier(b"\x01" * 20, None, None), False)]},
            {"with": [(x509.SubjectKeyIdentifier(b"\x02" * 20), False)]},
            f"CN=issuing names the issuing key {'01' * 20}, but CN=root calls its key {'02' * 20}",
        ),
    ],
)
async def test_a_chain_under_which_nothing_would_verify_is_refused(tmp_path, brought, issuing, root, word):
    made = [
        brought.certificate(name, "root", *with_.get("with", ()), path_length=with_.get("path_length"))
        for name, with_ in (("issuing", issuing), ("root", root))
    ]
    brought.write(*made)

    assert word in await brought.refusal(tmp_path)


async def test_a_chain_that_allows_what_the_profiles_ask_for_starts(open_desk, tmp_path, brought):
    brought.write(
        brought.certificate("issuing", "root", usages(SERVER, CLIENT), path_length=0),
        brought.certificate("root", "root", usages(ANY), path_length=1),
    )
    desk = await open_desk(ca=brought.config(tmp_path)["ca"], profiles={"both": {"eku": ["serverAuth", "clientAuth"]}, "none": {"eku": []}})

    assert (await desk.certify("a.example.com", profile="both")).der


# ---- Refused for an order, and at the lint


@pytest.mark.parametrize(
    ("constraint", "allowed", "refused"),
    [
        (
            names(dns("example.com", "example.net")),
            ["dns/example.com", "dns/a.example.com", "dns/*.example.com", "dns/x.y.example.net", "ip/192.0.2.1"],
            ["dns/example.org", "dns/badexample.com", "dns/*.com", "dns/com"],
        ),
        (names(dns("Example.COM")), ["dns/a.example.com"], ["dns/a.example.org"]),
        (names(dns(".example.com")), ["dns/a.example.com", "dns/*.example.com"], ["dns/example.com", "dns/aexample.com"]),
        (
            names(excluded=dns("secret.example.com")),
            ["dns/example.com", "dns/a.example.com", "dns/*.a.example.com", "dns/*.com"],
            ["dns/secret.example.com", "dns/x.secret.example.com", "dns/*.secret.example.com", "dns/*.example.com"],
        ),
        (names(dns("example.com"), dns("a.example.com")), ["dns/b.example.com"], ["dns/a.example.com", "dns/a.example.org"]),
        (names(excluded=dns("")), ["ip/192.0.2.1"], ["dns/a.example.com"]),
        (names(net("192.0.2.0/25")), ["ip/192.0.2.1", "dns/a.example.com"], ["ip/192.0.2.200", "ip/2001:db8::1"]),
        (names(excluded=net("0.0.0.0/0")), ["ip/2001:db8::1", "dns/a.example.com"], ["ip/192.0.2.200"]),
        (names(mail("example.com")), ["email/a@example.com"], ["email/a@b.example.com", "email/a@example.org"]),
        (names(mail(".example.com")), ["email/a@b.example.com"], ["email/a@example.com"]),
        (names(mail("ada@example.com")), ["email/ada@example.com"], ["email/Ada@example.com", "email/bob@example.com"]),
        (names([x509.UniformResourceIdentifier("example.com")]), ["dns/a.example.com", "ip/192.0.2.1"], []),
    ],
)
async def test_an_order_for_what_the_chain_excludes_is_refused(open_desk, tmp_path, brought, constraint, allowed, refused):
    brought.write(brought.certificate("issuing", "root", constraint), brought.root)
    desk = await open_desk(ca=brought.config(tmp_path)["ca"])
    profile = desk.issuance.profile(None)

    for name in allowed:
        desk.issuance.check_identifier(profile, Identifier(*name.split("/")))
    for name in refused:
        with pytest.raises(RejectedIdentifier, match=r"a certificate for this name would not verify: "):
            desk.issuance.check_identifier(profile, Identifier(*name.split("/")))


async def test_constraints_of_every_certificate_of_the_chain_count(open_desk, tmp_path, brought):
    brought.write(
        brought.certificate("issuing", "root", names(dns("example.com", "example.org"))),
        brought.certificate("root", "root", names(dns("example.com"))),
    )
    desk = await open_desk(ca=brought.config(tmp_path)["ca"])

    assert (await desk.leaf("a.example.com")).subject.rdns
    with pytest.raises(RejectedIdentifier, match=r"limited to example\.com$"):
        await desk.compose("a.example.org")


async def test_a_subject_that_the_chain_does_not_allow_is_left_empty(open_desk, tmp_path, brought):
    brought.write(brought.certificate("issuing", "root", names(directory(o="Example"))), brought.root)
    desk = await open_desk(ca=brought.config(tmp_path)["ca"])
    leaf = await desk.leaf("a.example.com")

    assert not leaf.subject.rdns
    assert leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).critical


async def test_the_lint_finds_what_the_chain_does_not_allow(open_desk, tmp_path, brought):
    brought.write(brought.certificate("issuing", "root", names(dns("example.com")), usages(SERVER)), brought.root)
    desk = await open_desk(ca=brought.config(tmp_path)["ca"])
    tbs, meant = desk.composed("a.example.com")
    lint(tbs, meant)

    profile = replace(meant.request.profile, eku=("serverAuth", "clientAuth"))
    others = {
        "limited to example.com": replace(meant, names=(x509.DNSName("a.example.org"),)),
        "does not allow the extended key usage clientAuth": replace(meant, request=replace(meant.request, profile=profile)),
    }
    for word, wrong in others.items():
        with pytest.raises(Internal) as found:
            lint(tbs, wrong)
        assert word in found.value.cause


# ---- What is delivered


@pytest.mark.parametrize(("with_root", "count"), [(False, 1), (True, 2)])
async def test_r107_the_chain_goes_out_without_the_root(open_desk, tmp_path, brought, with_root, count):
    desk = await open_desk(ca=brought.config(tmp_path, chain_with_root=with_root)["ca"])

    assert len((await desk.certify("a.example.com")).chain) == count


async def test_r107_a_root_that_signs_leaves_itself_goes_with_them(open_desk, tmp_path, brought):
    brought.write_key("root")
    brought.write(brought.root)
    desk = await open_desk(ca=brought.config(tmp_path)["ca"])

    assert len((await desk.certify("a.example.com")).chain) == 1
