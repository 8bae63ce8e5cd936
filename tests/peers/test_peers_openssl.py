"""What OpenSSL says of certificates under a CA that limits itself is what our CA refuses before it issues them."""

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from greatseal_ca.constraints import Constraints

KEY = ec.generate_private_key(ec.SECP256R1())
Program = Callable[[str, str], Path]


def certificate(subject: str, issuer: str, *extensions: x509.ExtensionType, ca: bool) -> x509.Certificate:
    def named(common_name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else [])

    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(named(issuer), named(subject), KEY.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(not ca, False, False, False, False, ca, ca, False, False), critical=True)
    )
    for value in extensions:
        builder = builder.add_extension(value, critical=True)
    return builder.sign(KEY, hashes.SHA256())


def general_name(kind: str, value: str, *, base: bool) -> x509.GeneralName:
    match kind:
        case "dns":
            return x509.DNSName(value)
        case "ip":
            return x509.IPAddress(ip_network(value) if base else ip_address(value))
        case _:
            return x509.RFC822Name(value)


@pytest.mark.parametrize("excluded", [False, True])
@pytest.mark.parametrize(
    ("kind", "base", "names"),
    [
        ("dns", "example.com", ["example.com", "a.example.com", "*.example.com", "EXAMPLE.com", "badexample.com", "com", "example.org"]),
        ("dns", "a.b.example.com", ["a.b.example.com", "b.example.com", "*.a.b.example.com", "c.example.com"]),
        ("email", "example.com", ["a@example.com", "a@EXAMPLE.com", "a@b.example.com", "a@example.org"]),
        ("email", ".example.com", ["a@b.example.com", "a@example.com"]),
        ("email", "ada@example.com", ["ada@example.com", "Ada@example.com", "bob@example.com"]),
        ("ip", "192.0.2.0/25", ["192.0.2.1", "192.0.2.200", "2001:db8::1"]),
        ("ip", "2001:db8::/32", ["2001:db8::1", "2001:db9::1", "192.0.2.1"]),
    ],
)
def test_openssl_and_the_ca_agree_on_name_constraints(
    program: Program, tmp_path: Path, excluded: bool, kind: str, base: str, names: list[str]
) -> None:
    openssl = program("openssl", "openssl")
    subtree = [general_name(kind, base, base=True)]
    limits = x509.NameConstraints(None, subtree) if excluded else x509.NameConstraints(subtree, None)
    issuing, root = certificate("issuing", "root", limits, ca=True), certificate("root", "root", ca=True)
    files = {"issuing.pem": issuing, "root.pem": root}
    for name in names:
        files[f"{names.index(name)}.pem"] = certificate(
            "", "issuing", x509.SubjectAlternativeName([general_name(kind, name, base=False)]), ca=False
        )
    for file, one in files.items():
        (tmp_path / file).write_bytes(one.public_bytes(Encoding.PEM))
    ours = Constraints([issuing, root])

    for number, name in enumerate(names):
        command = [str(openssl), "verify", "-CAfile", "root.pem", "-untrusted", "issuing.pem", f"{number}.pem"]
        told = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=30)

        refused = ours.refusal(general_name(kind, name, base=False)) is not None
        assert refused == (told.returncode != 0), (name, told.stdout + told.stderr)
