"""The profiles that config/ca.toml has, those in its comments too, each with a certificate that pkilint takes."""

import re
import tomllib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from pkilint import loader
from pkilint.pkix import certificate, extension, name
from pkilint.validation import ValidationFindingSeverity

from greatseal.api.acme import Identifier
from greatseal.api.issuance import IssuanceRequest
from greatseal.api.services import ISSUANCE
from greatseal.testing.service import document, serve

READY = Path(__file__).parents[2] / "config/ca.toml"
NAMES = {"mail": Identifier("email", "ann@example.com")}
USES = {"client": ExtendedKeyUsageOID.CLIENT_AUTH, "mail": ExtendedKeyUsageOID.EMAIL_PROTECTION}


def ready() -> dict:
    head, profiles, examples = READY.read_text().partition("[profiles.default]")
    return tomllib.loads(head + profiles + re.sub(r"^# (\[profiles\.\w+\]|\w+ = )", r"\1", examples, flags=re.MULTILINE))


PROFILES = {name: one for name, one in ready()["profiles"].items() if name != "tree"}
"""All but that of tree certificates, which needs a log."""


def errors(der: bytes) -> list[str]:
    validator = certificate.create_pkix_certificate_validator_container(
        certificate.create_decoding_validators(name.ATTRIBUTE_TYPE_MAPPINGS, extension.EXTENSION_MAPPINGS),
        [
            certificate.create_issuer_validator_container([]),
            certificate.create_validity_validator_container(),
            certificate.create_subject_validator_container([]),
            certificate.create_extensions_validator_container([]),
            certificate.create_spki_validator_container([]),
        ],
    )
    results = validator.validate(loader.load_certificate(der, "certificate").root)
    found = [one.finding for result in results for one in result.finding_descriptions]
    return [one.code for one in found if one.severity in {ValidationFindingSeverity.ERROR, ValidationFindingSeverity.FATAL}]


def test_there_are_a_default_a_short_one_and_examples():
    assert list(PROFILES) == ["default", "short-lived", "client", "mail"]
    assert list(tomllib.loads(READY.read_text())["profiles"]) == ["default", "short-lived"]


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_certificate_of_each_profile(tmp_path, profile):
    given = ready()
    del given["profiles"]["tree"]
    here = document(tmp_path, [])
    config = {**given, "database": here["database"], "cluster": here["cluster"]}
    config["server"] = {**given["server"], "listen": here["server"]["listen"], "state_dir": str(tmp_path)}
    identifier = NAMES.get(profile, Identifier("dns", "www.example.com"))
    key = ec.generate_private_key(ec.SECP256R1())
    san = x509.RFC822Name(identifier.value) if identifier.type == "email" else x509.DNSName(identifier.value)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    csr = builder.add_extension(x509.SubjectAlternativeName([san]), critical=False).sign(key, hashes.SHA256())

    async with serve(config) as service:
        issuance, db = service.kernel.service(ISSUANCE), service.kernel.store
        chosen = issuance.profile(profile)
        request = IssuanceRequest(
            profile=chosen,
            ca_id=chosen.ca_id,
            identifiers=(identifier,),
            csr=issuance.read_csr(csr.public_bytes(Encoding.DER)),
            account=None,
        )
        prepared = await db.write(issuance.reserve, await issuance.compose(request))
        made = await db.write(issuance.record, prepared, await issuance.issue(prepared))

    leaf = x509.load_der_x509_certificate(made.der)
    assert errors(made.der) == []
    assert list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        USES.get(profile, ExtendedKeyUsageOID.SERVER_AUTH)
    ]
    kinds = {type(one.value) for one in leaf.extensions}
    assert (x509.CRLDistributionPoints in kinds) is (profile != "short-lived")
    days = (leaf.not_valid_after_utc - leaf.not_valid_before_utc).total_seconds() / 86_400
    assert round(days) == (6 if profile == "short-lived" else 90)
    if profile == "short-lived":
        access = leaf.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
        assert [one.access_method._name for one in access] == ["caIssuers"]
