import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import ocsp
from cryptography.x509.oid import NameOID

from greatseal.api.acme import AccountView, Identifier
from greatseal.api.issuance import Certificate, Draft, IssuanceRequest
from greatseal.api.problems import StartProblem
from greatseal.api.services import ISSUANCE
from greatseal.testing.service import Kernel, Service, document
from greatseal_ca.build import Composition, to_be_signed
from greatseal_ca.issue import CertificateAuthority

MakeCsr = Callable[..., bytes]
SHA256 = hashes.SHA256()


@pytest.fixture(scope="session")
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="session")
def make_csr(ec_key: ec.EllipticCurvePrivateKey) -> MakeCsr:
    """``make_csr("a.example.com", ..., cn=..., key=..., extensions=[(value, critical)])``: DER."""

    def make(
        *names: str | x509.GeneralName,
        cn: str | None = None,
        key=None,
        extensions: Sequence[tuple[x509.ExtensionType, bool]] = (),
        hash_alg: hashes.HashAlgorithm | None = SHA256,
    ) -> bytes:
        with warnings.catch_warnings(action="ignore"):  # of a common name that is too long
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, cn, _validate=False)] if cn is not None else [])
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        if names:
            san = x509.SubjectAlternativeName([x509.DNSName(one) if isinstance(one, str) else one for one in names])
            builder = builder.add_extension(san, critical=False)
        for value, critical in extensions:
            builder = builder.add_extension(value, critical=critical)
        return builder.sign(key or ec_key, hash_alg).public_bytes(Encoding.DER)

    return make


class Desk(msgspec.Struct, frozen=True):
    """A running service with ca alone, and the steps that a protocol in front of it takes."""

    service: Service
    make_csr: MakeCsr

    @property
    def issuance(self) -> CertificateAuthority:
        issuance: Any = self.service.kernel.service(ISSUANCE)
        return issuance

    def authority(self, ca_id: str = "default"):
        """The open CA of that id."""
        return self.parts.authorities.issuing[ca_id]

    @property
    def parts(self):
        """What the hooks of the plugin share."""
        return self.service.kernel.hooks.instances["ca"].parts(self.service.host("ca"))

    async def revoke(self, certificate: Certificate, reason: int | None = None) -> Certificate:
        """As whoever revokes does before the reply."""
        revoked = await self.db.write(partial(self.issuance.revoke, by="alice"), certificate.id, reason)
        await self.issuance.publish([revoked])
        return revoked

    async def fetch(self, path: str, *, method: str = "GET", **more):
        """Status, headers and body."""
        async with aiohttp.ClientSession() as session, session.request(method, self.service.url + path, **more) as reply:
            return reply.status, reply.headers, await reply.read()

    async def ask(self, *certificates: Certificate, path="/ca/ocsp", ca_id="default", nonce=None, hash_alg=None) -> ocsp.OCSPResponse:
        """The answer of the OCSP responder."""
        issuer, builder = self.authority(ca_id).certificate, ocsp.OCSPRequestBuilder()
        for one in certificates:
            builder = builder.add_certificate(x509.load_der_x509_certificate(one.der), issuer, hash_alg or hashes.SHA1())
        if nonce is not None:
            builder = builder.add_extension(x509.OCSPNonce(nonce), critical=False)
        data, kind = builder.build().public_bytes(Encoding.DER), {"Content-Type": "application/ocsp-request"}
        status, headers, body = await self.fetch(path, method="POST", data=data, headers=kind)
        assert (status, headers["Content-Type"]) == (200, "application/ocsp-response")
        return ocsp.load_der_ocsp_response(body)

    def chain(self, certificate: Certificate) -> list[x509.Certificate]:
        """The certificate and those above it, the root too."""
        above = self.authority(certificate.ca_id).chain
        assert certificate.chain == above[:-1]
        return [x509.load_der_x509_certificate(der) for der in (certificate.der, *above)]

    @property
    def db(self):
        return self.service.kernel.store

    def request(
        self, *names: str, csr: bytes | None = None, profile: str | None = None, ca_id: str | None = None, **more
    ) -> IssuanceRequest:
        """What an order for ``names`` asks for; ``kind:value`` is an identifier that is no DNS name."""
        identifiers = tuple(Identifier(*name.split("/")) if "/" in name else Identifier("dns", name) for name in names)
        chosen = self.issuance.profile(profile, ca_id)
        request = self.issuance.read_csr(csr or self.make_csr(*(one.value for one in identifiers)))
        self.issuance.match(request, identifiers)
        more.setdefault("account", ACCOUNT)
        return IssuanceRequest(profile=chosen, ca_id=chosen.ca_id, identifiers=identifiers, csr=request, **more)

    async def compose(self, *names: str, **more) -> Draft:
        return await self.issuance.compose(self.request(*names, **more))

    def composed(self, *names: str, **more) -> tuple[bytes, Composition]:
        """A to-be-signed part that nobody linted, and what the lint is to find."""
        composition = self.issuance.composition(self.request(*names, **more))
        return to_be_signed(composition.content(self.service.kernel.clock.now()), composition.frame), composition

    async def certify(self, *names: str, **more) -> Certificate:
        """From the request to the inventory."""
        prepared = await self.db.write(self.issuance.reserve, await self.compose(*names, **more))
        return await self.db.write(self.issuance.record, prepared, await self.issuance.issue(prepared))

    async def leaf(self, *names: str, **more) -> x509.Certificate:
        return x509.load_der_x509_certificate((await self.certify(*names, **more)).der)

    def rows(self, statement):
        return self.db.read(lambda tx: tx.all(statement))


ACCOUNT = AccountView(id="account-1", url="https://ca.example/acme/account/account-1", status="valid", thumbprint="x" * 43)


@pytest.fixture
def open_desk(start_service, make_csr):
    """``await open_desk("more", "features", ca=..., profiles=..., clock=...)``."""

    async def start(*features: str, **sections) -> Desk:
        return Desk(await start_service("ca", *features, **sections), make_csr)

    return start


@pytest.fixture
async def desk(open_desk) -> Desk:
    return await open_desk()


class Ca:
    """An operator's root and issuing CA."""

    def __init__(self, folder: Path) -> None:
        self.key_file, self.cert_file = folder / "ca.key", folder / "ca.pem"
        self.keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("root", "issuing", "other")}
        self.root = self.certificate("root", "root")
        self.issuing = self.certificate("issuing", "root")
        self.write_key("issuing")
        self.write(self.issuing, self.root)

    def certificate(
        self,
        name: str,
        issuer: str,
        *extensions: tuple[x509.ExtensionType, bool],
        ca: bool = True,
        days: tuple[int, int] = (-1, 365),
        with_usage: bool = True,
        path_length: int | None = None,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        usage = x509.KeyUsage(False, False, False, False, False, ca, ca, False, False)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(issuer))
            .public_key(self.keys[name].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=days[0]))
            .not_valid_after(now + timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
        )
        for value, critical in extensions:
            builder = builder.add_extension(value, critical=critical)
        return (builder.add_extension(usage, critical=True) if with_usage else builder).sign(self.keys[issuer], hashes.SHA256())

    def write(self, *certificates: x509.Certificate) -> None:
        self.cert_file.write_bytes(b"".join(one.public_bytes(Encoding.PEM) for one in certificates))

    def write_key(self, name: str, password: bytes | None = None) -> None:
        encryption = BestAvailableEncryption(password) if password else NoEncryption()
        self.key_file.write_bytes(self.keys[name].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        self.key_file.chmod(0o600)

    def config(self, folder: Path, **more) -> dict:
        files = {"key_file": str(self.key_file), "cert_file": str(self.cert_file)}
        return document(folder, ["ca"], ca={**files, **more})

    async def refusal(self, folder: Path, **more) -> str:
        """What stops the start; check-config says the same before anything is opened."""
        with pytest.raises(StartProblem) as refused:
            Kernel(self.config(folder, **more))
        (message,) = refused.value.messages
        assert message.startswith("[ca] default: ")
        assert "\n" not in message
        return message


def named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


@pytest.fixture
def brought(tmp_path) -> Ca:
    return Ca(tmp_path)


class Pkilint:
    """Findings of pkilint from warnings on; ``errors`` alone are what no certificate may have."""

    @staticmethod
    def certificate(der: bytes, *, errors: bool = False) -> list[str]:
        """Of the PKIX linter."""
        from pkilint.pkix import certificate, extension, name

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
        return _findings(validator.validate(_loaded(der)), errors=errors)

    @staticmethod
    def serverauth(der: bytes, *, errors: bool = False) -> list[str]:
        """Of the linter of the CA/Browser Forum for certificates of the policy 2.23.140.1.2.1."""
        from pkilint import finding_filter
        from pkilint.cabf import serverauth
        from pkilint.cabf.serverauth import serverauth_constants
        from pkilint.pkix import certificate

        kind = serverauth_constants.CertificateType.DV_FINAL_CERTIFICATE
        validator = certificate.create_pkix_certificate_validator_container(
            serverauth.create_decoding_validators(), serverauth.create_validators(kind)
        )
        results = validator.validate(_loaded(der))
        kept, _ = finding_filter.filter_results(serverauth.create_serverauth_finding_filters(kind), results)
        return _findings(kept, errors=errors)

    @staticmethod
    def smime(der: bytes, *, errors: bool = False) -> list[str]:
        """Of the linter of the CA/Browser Forum for S/MIME, under the policy that the certificate claims."""
        from pkilint.cabf import smime
        from pkilint.pkix import certificate

        loaded = _loaded(der)
        claimed = smime.determine_validation_level_and_generation(loaded.document)
        assert claimed, "no policy of 2.23.140.1.5 is claimed"
        validator = certificate.create_pkix_certificate_validator_container(
            smime.create_decoding_validators(), smime.create_subscriber_validators(*claimed)
        )
        return _findings(validator.validate(loaded), errors=errors)

    @staticmethod
    def chain(*ders: bytes) -> list[str]:
        """Errors of the linter of an issuer and what it issued, for each pair of a chain, leaf first."""
        from pkilint import loader
        from pkilint.bin import lint_pkix_signer_signee_cert_chain as linter

        found = []
        for subject, issuer in pairwise(ders):
            both: dict = {}
            both["issuer"] = loader.load_certificate(issuer, "issuer", "issuer", both)
            both["subject"] = loader.load_certificate(subject, "subject", "subject", both)
            decoding = linter.create_decoder_validation_container()
            results = [*decoding.validate(both["issuer"].root), *decoding.validate(both["subject"].root)]
            results += linter.create_issuer_validation_container().validate(both["issuer"].root)
            results += linter.create_subject_validation_container().validate(both["subject"].root)
            found += _findings(results, errors=True)
        return found

    @staticmethod
    def crl(der: bytes) -> list[str]:
        """Of the PKIX linter of lists, and what the CA/Browser Forum says of their times and reasons."""
        from pkilint import loader, pkix
        from pkilint.cabf import cabf_crl
        from pkilint.pkix import crl, extension, name

        kind = crl.CertificateRevocationListType.CRL
        validator = crl.create_pkix_crl_validator_container(
            [pkix.create_attribute_decoder(name.ATTRIBUTE_TYPE_MAPPINGS), pkix.create_extension_decoder(extension.EXTENSION_MAPPINGS)],
            [
                crl.create_issuer_validator_container([]),
                crl.create_validity_validator_container([cabf_crl.create_validity_period_validator(kind)]),
                crl.create_extensions_validator_container([]),
                cabf_crl.CabfCrlReasonCodeAllowlistValidator(kind),
            ],
        )
        return _findings(validator.validate(loader.load_crl(der, "crl").root), errors=False)

    @staticmethod
    def ocsp(der: bytes) -> list[str]:
        """Of the PKIX linter of answers."""
        from pkilint import loader, pkix
        from pkilint.pkix import extension, name, ocsp

        decoders = [
            ocsp.create_response_decoder(),
            pkix.create_attribute_decoder(name.ATTRIBUTE_TYPE_MAPPINGS),
            pkix.create_extension_decoder(extension.EXTENSION_MAPPINGS),
        ]
        validator = ocsp.create_pkix_ocsp_response_validator_container(decoders, [])
        return _findings(validator.validate(loader.load_ocsp_response(der, "answer").root), errors=False)


def _loaded(der: bytes):
    from pkilint import loader

    return loader.load_certificate(der, "certificate").root


def _findings(results, *, errors: bool) -> list[str]:
    from pkilint.validation import ValidationFindingSeverity as Severity

    grave = {Severity.ERROR, Severity.FATAL} if errors else {Severity.WARNING, Severity.ERROR, Severity.FATAL}
    found = [one.finding for result in results for one in result.finding_descriptions]
    return sorted({one.code for one in found if one.severity in grave})


@pytest.fixture
def pkilint() -> Pkilint:
    return Pkilint()
