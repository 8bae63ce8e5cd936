"""Key ceremonies and their commands: a root elsewhere, the next issuing certificate, cross-certificates, keys that are lost or stolen."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256

import aiohttp
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store
from sqlalchemy import delete, select

from greatseal.api.acme import Identifier
from greatseal.api.issuance import IssuanceRequest
from greatseal.api.problems import StartProblem
from greatseal.api.services import ISSUANCE
from greatseal.jose.acceptance import spki_sha256
from greatseal.testing.service import Service, document, serve
from greatseal.testing.store import audit, key
from greatseal_ca import tables
from greatseal_ca.commands import _described
from greatseal_ca.commands import ca as commands

SUBORDINATES = select(tables.certificate).where(tables.certificate.c.issue_as == "root")
RENEWED = select(audit.c.detail).where(audit.c.event_type == "ca.renewed")
PUBLIC = {"base_url": "https://ca.example.com"}
"""URLs with the host localhost are none, says pkilint."""
KEYS = select(key.c.purpose).where(key.c.purpose.not_like("%:ocsp"))


class Place:
    """A configuration, its service, and the commands beside it."""

    def __init__(self, folder, database_url: str, make_csr, **sections) -> None:
        self.folder = folder
        self.make_csr = make_csr
        self.config = document(folder, ["ca"], database={"url": database_url, "migrate": "auto"}, **sections)
        self.config.setdefault("server", {})["state_dir"] = str(folder)
        self.file = folder / "greatseal.toml"
        self.file.write_text("".join(_toml(name, values) for name, values in self.config.items()))

    async def run(self, *words: str, wrong: str = "", given: bytes | None = None) -> str:
        """A command of ``greatseal ca``; ``wrong`` is in the one line that says what is. ``given`` is the file that it takes."""
        if given is not None:
            (self.folder / "given").write_bytes(given)
            words = (words[0], str(self.folder / "given"), *words[1:])
        result = await asyncio.to_thread(CliRunner().invoke, commands, [*words, "-c", str(self.file)])
        assert (result.exit_code != 0) is bool(wrong), result.output
        if wrong:
            (line,) = result.stderr.splitlines()
            assert line.startswith("greatseal: ")
            assert wrong in line
        return result.stdout

    def serve(self):
        return serve(self.config)

    async def issue(self, service: Service, name: str = "a.example.com", ca_id: str | None = None):
        issuance, db = service.kernel.service(ISSUANCE), service.kernel.store
        draft = await issuance.compose(self.request(service, name, ca_id))
        prepared = await db.write(issuance.reserve, draft)
        return await db.write(issuance.record, prepared, await issuance.issue(prepared))

    def request(self, service: Service, name: str, ca_id: str | None = None) -> IssuanceRequest:
        issuance = service.kernel.service(ISSUANCE)
        profile = issuance.profile(None, ca_id)
        names = (Identifier("dns", name),)
        return IssuanceRequest(
            profile=profile, ca_id=profile.ca_id, identifiers=names, csr=issuance.read_csr(self.make_csr(name)), account=None
        )


def _toml(name: str, values) -> str:
    tables_of = [(f"[[{name}]]", one) for one in values] if isinstance(values, list) else [(f"[{name}]", values)]
    return "".join(f"{head}\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in own.items()) for head, own in tables_of)


@pytest.fixture
def place(tmp_path, database_url, make_csr) -> Place:
    return Place(tmp_path, database_url, make_csr)


def rows(service: Service, statement):
    return service.kernel.store.read(lambda tx: tx.all(statement))


def parts(service: Service):
    return service.kernel.hooks.instances["ca"].parts(service.host("ca"))


def loaded(certificate) -> list[x509.Certificate]:
    return [x509.load_der_x509_certificate(der) for der in (certificate.der, *certificate.chain)]


class Elsewhere:
    """A root that no service has."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP384R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Offline Root")])
        self.root = self.sign(self.name, self.key.public_key(), None)

    def sign(self, subject, public_key, path_length, *, days: int = 365, ca: bool = True, more=()) -> x509.Certificate:
        now = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)
        usage = x509.KeyUsage(False, False, False, False, False, ca, ca, False, False)
        builder = (
            x509.CertificateBuilder(self.name, subject, public_key, x509.random_serial_number(), now, now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        for value in more:
            builder = builder.add_extension(value, critical=False)
        return builder.sign(self.key, hashes.SHA384())

    def answer(self, csr: str, **more) -> x509.Certificate:
        request = x509.load_pem_x509_csr(csr.encode())
        assert request.is_signature_valid
        return self.sign(request.subject, request.public_key(), 0, **more)


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


# ---- A root elsewhere


async def test_a_root_that_stays_elsewhere_signs_what_the_service_asks_for(place):
    elsewhere = Elsewhere()
    csr = await place.run("renew", "--csr")
    assert await place.run("renew", "--csr") == await place.run("export", "--csr") == csr
    with pytest.raises(StartProblem, match=r"\[ca\] default: the request of .* waits for its certificate; bring it with: greatseal ca imp"):
        async with place.serve():
            pass
    issuing = elsewhere.answer(csr)
    assert "generation 1" in await place.run("import", given=pem(issuing, elsewhere.root))

    async with place.serve() as service:
        leaf, above = loaded(await place.issue(service))
        leaf.verify_directly_issued_by(issuing)
        assert above == issuing
        assert [row.purpose for row in await rows(service, KEYS)] == ["ca:default:issuing"]
        assert (place.folder / "ca/default/root.pem").read_bytes() == pem(elsewhere.root)
        assert len(await rows(service, RENEWED)) == 1
    assert await place.run("export", "--root") == pem(elsewhere.root).decode()
    assert await place.run("export") == pem(issuing, elsewhere.root).decode()
    await place.run("renew", wrong="its root is not here; a root elsewhere signs what it is asked for with: greatseal ca renew --csr")
    await place.run("renew", "--csr", "--same-key")
    assert x509.load_pem_x509_csr((await place.run("export", "--csr")).encode()).public_key() == issuing.public_key()


WRONG = {
    "no root": (lambda e, csr: pem(e.answer(csr)), "the root is missing at the end"),
    "another key": (lambda e, _: pem(e.root), "the first certificate is for another key than the request of "),
    "the order": (lambda e, csr: pem(e.root, e.answer(csr)), "the first certificate is for another key"),
    "another root": (lambda e, csr: pem(e.answer(csr), Elsewhere().root), "CN=Greatseal Issuing CA"),
    "ended": (lambda e, csr: pem(e.answer(csr, days=1), e.root), "expired on"),
    "no CA": (
        lambda e, csr: pem(
            e.answer(
                csr,
                ca=False,
            ),
            e.root,
        ),
        "",
    ),
    "nothing": (lambda e, _: b"nonsense", "cannot be read as PEM certificates"),
}


@pytest.mark.parametrize(
    ("answer", "words"), [one for one in WRONG.values() if one[1]], ids=[name for name, one in WRONG.items() if one[1]]
)
async def test_an_answer_that_is_no_chain_for_the_request_is_refused(tmp_path, make_csr, answer, words):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", make_csr)
    csr = await place.run("renew", "--csr")

    await place.run("import", given=answer(Elsewhere(), csr), wrong=words)
    assert await place.run("export", "--csr") == csr


async def test_an_answer_that_constrains_what_a_profile_certifies_is_refused(tmp_path, make_csr):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", make_csr)
    elsewhere = Elsewhere()
    csr = await place.run("renew", "--csr", "--ca", "default")
    answer = pem(elsewhere.answer(csr, more=[x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])]), elsewhere.root)

    await place.run("import", given=answer, wrong="[ca] default: ")
    assert await place.run("export", "--csr") == csr


async def test_without_a_request_nothing_is_imported_and_one_can_be_given_up(place):
    elsewhere = Elsewhere()
    await place.run(
        "import", given=pem(elsewhere.root), wrong="no request waits for a certificate; make one with: greatseal ca renew --csr"
    )
    csr = await place.run("renew", "--csr")
    assert await place.run("renew", "--discard") == "the request is given up\n"
    assert await place.run("renew", "--discard") == "no request waits\n"
    await place.run("export", "--csr", wrong="no request waits")
    await place.run("import", given=pem(elsewhere.answer(csr), elsewhere.root), wrong="no request waits")

    async with place.serve() as service:  # nothing waits any more: the service makes its own root
        assert len(parts(service).authorities.issuing["default"].chain) == 2


# ---- The next issuing certificate


async def test_a_new_issuing_certificate_signs_beside_the_old_one(tmp_path, database_url, make_csr, pkilint):
    place = Place(tmp_path, database_url, make_csr, server=PUBLIC)
    async with place.serve() as service:
        before = await place.issue(service)
        issuance = service.kernel.service(ISSUANCE)
        left = await service.kernel.store.write(issuance.reserve, await issuance.compose(place.request(service, "left.example.com")))
        root = parts(service).authorities.issuing["default"].chain[-1]
    assert "CA default: generation 2, " in await place.run("renew")

    async with place.serve() as service:
        after = await place.issue(service)
        again = await service.kernel.service(ISSUANCE).certificate(before.id)
        authorities = parts(service).authorities
        settled = await service.kernel.service(ISSUANCE).settle(left)
        (row,) = await rows(service, SUBORDINATES)
        assert (row.status, row.profile, bytes(row.der)) == ("issued", "issuing", after.chain[0])
        assert [one.detail.partition(", key")[0] for one in await rows(service, RENEWED)] == [
            "issuing certificate of CA default, generation 2"
        ]
    assert again.chain == before.chain != after.chain
    assert settled.chain == before.chain
    anchor = x509.load_der_x509_certificate(root)
    verifier = PolicyBuilder().store(Store([anchor])).time(datetime.now(UTC)).build_server_verifier(x509.DNSName("a.example.com"))
    old, new = loaded(before), loaded(after)
    for leaf, issuing in (old, new):
        assert len(verifier.verify(leaf, [issuing])) == 3
        issuing.verify_directly_issued_by(anchor)
    assert old[1].subject != new[1].subject
    assert old[1].public_key() != new[1].public_key()
    assert new[1].extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(ca=True, path_length=0)
    assert new[1].not_valid_after_utc <= anchor.not_valid_after_utc
    assert pkilint.certificate(after.chain[0]) == []
    assert pkilint.chain(after.der, after.chain[0], root) == []
    assert [one.certificate for one in authorities.generations["default"]] == [new[1], old[1]]
    for issuing in (old[1], new[1]):
        found = next(one for one in authorities.generations["default"] if one.certificate == issuing)
        assert authorities.of_key("default", found.signer.info.kid) is found


async def test_a_key_can_be_kept_and_then_the_name_is(tmp_path, make_csr):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", make_csr, ca={"common_name": "Example CA", "enforce_validity_cap": True})
    async with place.serve() as service:
        before = await place.issue(service)
    assert "generation 2, CN=Example CA, " in await place.run("renew", "--same-key")
    assert "generation 3, CN=Example CA G3, " in await place.run("renew")

    async with place.serve() as service:
        chain = [one.certificate for one in parts(service).authorities.generations["default"]]
    first = loaded(before)[1]
    assert chain[2] == first
    assert chain[1].public_key() == first.public_key()
    assert chain[1].serial_number != first.serial_number
    loaded(before)[0].verify_directly_issued_by(chain[1])
    assert chain[0].not_valid_after_utc - chain[0].not_valid_before_utc > timedelta(days=3000)  # the cap is that of leaves


async def killed(place: Place, point: str, *words: str) -> None:
    """A command that dies at that point."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", COMMAND, *words, "-c", str(place.file)],
        env={**os.environ, "GREATSEAL_FAULTS": "1", "GREATSEAL_FAULT": f"{point}:kill"},
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


POINTS = ["ca.ceremony.key_made", "ca.ceremony.reserved", "ca.root.signing", "ca.root.signed", "ca.ceremony.recorded"]
COMMAND = "import sys; from greatseal_ca.commands import ca; ca(sys.argv[1:])"


@pytest.mark.parametrize("point", POINTS)
async def test_a_renewal_that_was_killed_is_finished_by_the_next(place, point):
    async with place.serve() as service:
        before = await place.issue(service)
    await killed(place, point, "renew")
    async with place.serve() as service:  # as before
        assert len(parts(service).authorities.generations["default"]) == 1
        assert (await place.issue(service, "b.example.com")).chain == before.chain
        recorded = [(row.serial, row.status) for row in await rows(service, SUBORDINATES)]
        assert [status for _, status in recorded] == ([] if point == POINTS[0] else ["signing"])
    assert "generation 2" in await place.run("renew")

    async with place.serve() as service:
        (row,) = await rows(service, SUBORDINATES)
        assert row.status == "issued"
        assert {row.serial} >= {serial for serial, _ in recorded}
        assert (await place.issue(service, "c.example.com")).chain[0] == bytes(row.der)
        assert len(await rows(service, KEYS)) == 3
        assert await rows(service, select(tables.request)) == []


async def test_a_command_that_another_one_stands_in_the_way_of_says_what_to_do(place):
    elsewhere = Elsewhere()
    await place.run("renew", "--csr", "--same-key", wrong="it has no key here; leave --same-key out")
    async with place.serve():
        pass
    csr = await place.run("renew", "--csr")
    await place.run("renew", wrong="waits for a certificate from elsewhere; import it, or give it up with --discard")
    await place.run("renew", "--discard")
    await killed(place, "ca.ceremony.reserved", "renew")
    await place.run("renew", "--csr", wrong="for its own root was interrupted; finish it with: greatseal ca renew")
    await place.run("import", given=pem(elsewhere.answer(csr), elsewhere.root), wrong="no request waits for a certificate")
    await place.run("renew")
    csr = await place.run("renew", "--csr")
    await place.run("import", given=pem(elsewhere.answer(csr), elsewhere.root))

    await place.run("renew", wrong="its root is elsewhere; make a request for it with: greatseal ca renew --csr")
    assert "generation 3" in await place.run("show")


async def test_a_root_whose_first_issuing_certificate_was_not_made_yet_renews_nothing(place):
    async with place.serve() as service:
        await service.kernel.store.write(lambda tx: tx.run(delete(tables.authority).where(tables.authority.c.role == "issuing")))

    await place.run("renew", wrong="it has no certificate yet; the first start makes root and issuing certificate")


# ---- Status of what both keys signed


async def fetch(service: Service, path: str, body: bytes | None = None) -> bytes:
    kind, url = {"Content-Type": "application/ocsp-request"}, f"http://{service.addresses['main']}{path}"
    async with aiohttp.ClientSession() as session:
        asked = session.get(url) if body is None else session.post(url, data=body, headers=kind)
        async with asked as reply:
            assert reply.status == 200, path
            return await reply.read()


async def told(service: Service, leaf: x509.Certificate, issuing: x509.Certificate) -> tuple[ocsp.OCSPCertStatus, x509.Certificate]:
    """What OCSP says of a certificate, and who signed that."""
    key = issuing.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    hashed = (sha256(issuing.subject.public_bytes()).digest(), sha256(key).digest())
    request = ocsp.OCSPRequestBuilder().add_certificate_by_hash(*hashed, leaf.serial_number, hashes.SHA256()).build()
    answer = ocsp.load_der_ocsp_response(await fetch(service, "/ca/ocsp", request.public_bytes(Encoding.DER)))
    (responder,) = answer.certificates
    responder.public_key().verify(answer.signature, answer.tbs_response_bytes, ec.ECDSA(answer.signature_hash_algorithm))
    return answer.certificate_status, responder


async def test_the_key_that_signed_a_certificate_tells_of_it(place):
    async with place.serve() as service:
        before = await place.issue(service)
    await place.run("renew")

    async with place.serve() as service:
        after = await place.issue(service)
        issuance = service.kernel.service(ISSUANCE)
        revoked = await service.kernel.store.write(lambda tx: issuance.revoke(tx, before.id, 4, by="alice"))
        await issuance.publish([revoked])
        (old, old_ca), (new, new_ca) = loaded(before), loaded(after)
        first, second = [x509.load_der_x509_crl(await fetch(service, path)) for path in ("/ca/crl", "/ca/crl/2")]
        assert first.is_signature_valid(old_ca.public_key())
        assert second.is_signature_valid(new_ca.public_key())
        assert [one.serial_number for one in first] == [old.serial_number]
        assert list(second) == []
        for leaf, path in ((old, "/ca/crl"), (new, "/ca/crl/2")):
            (point,) = leaf.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
            assert point.full_name[0].value == service.url + path
        for leaf, issuing, path in ((old, old_ca, "/ca/cert"), (new, new_ca, "/ca/cert/2")):
            access = leaf.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
            assert access[1].access_location.value == service.url + path
            assert await fetch(service, path) == issuing.public_bytes(Encoding.DER)
        for leaf, issuing, status in (
            (old, old_ca, ocsp.OCSPCertStatus.REVOKED),
            (new, new_ca, ocsp.OCSPCertStatus.GOOD),
            (new, old_ca, ocsp.OCSPCertStatus.UNKNOWN),
        ):
            found, responder = await told(service, leaf, issuing)
            assert found is status
            responder.verify_directly_issued_by(issuing)
        await parts(service).lists.tidy()  # the key of before gets no more certificates
        assert {(await place.issue(service, f"{n}.example.com")).crl_shard for n in range(3)} == {2}


async def test_the_root_tells_of_an_issuing_certificate_that_it_took_back(place):
    async with place.serve() as service:
        first = loaded(await place.issue(service))[1]  # of the first start, which is in no inventory until then
    await place.run("renew")
    await place.run("revoke", f"{first.serial_number:x}", "--issued-as", "root", "--reason", "keyCompromise")
    async with place.serve() as service:
        taken = loaded(await place.issue(service))[1]
    await place.run("renew")
    await place.run("revoke", f"{taken.serial_number:x}", "--issued-as", "root", "--reason", "cessationOfOperation")

    async with place.serve() as service:
        root = x509.load_der_x509_certificate(parts(service).authorities.issuing["default"].chain[-1])
        listed = x509.load_der_x509_crl(await fetch(service, "/ca/root.crl"))
        assert listed.is_signature_valid(root.public_key())
        assert {one.serial_number for one in listed} == {first.serial_number, taken.serial_number}
        (point,) = taken.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
        assert point.full_name[0].value == f"{service.url}/ca/root.crl"
        found = await host_blocked(service, first)
    assert found.reason == "keyCompromise"
    await place.run("revoke", "41", "--issued-as", "root", wrong="CA default has no certificate of this serial")


@pytest.mark.parametrize("key_type", ["ec:P-256", "ml-dsa-44"])
async def test_pkilint_finds_nothing_in_lists_and_answers_of_a_second_generation_and_of_its_root(tmp_path, make_csr, pkilint, key_type):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", make_csr, server=PUBLIC, ca={"key_type": key_type})
    async with place.serve() as service:
        leaves = [await place.issue(service)]
    await place.run("renew")
    serial = f"{loaded(leaves[0])[1].serial_number:x}"
    await place.run("revoke", serial, "--issued-as", "root", "--reason", "cessationOfOperation")

    async with place.serve() as service:
        leaves.append(await place.issue(service))
        issuance = service.kernel.service(ISSUANCE)
        revoked = [await service.kernel.store.write(partial(issuance.revoke, by="alice"), one.id, 4) for one in leaves]
        await issuance.publish(revoked)
        for path in ("/ca/root.crl", "/ca/crl", "/ca/crl/2"):
            listed = await fetch(service, path)
            assert len(x509.load_der_x509_crl(listed)) == 1
            assert pkilint.crl(listed) == [], path
        for one in leaves:
            leaf, issuing, *_ = loaded(one)
            asked = ocsp.OCSPRequestBuilder().add_certificate(leaf, issuing, hashes.SHA256()).build().public_bytes(Encoding.DER)
            answer = await fetch(service, "/ca/ocsp", asked)
            assert ocsp.load_der_ocsp_response(answer).certificate_status is ocsp.OCSPCertStatus.REVOKED
            assert pkilint.ocsp(answer) == []


def host_blocked(service: Service, certificate: x509.Certificate):
    return service.host("ca").blocked_keys.find(spki_sha256(certificate.public_key()))


async def test_the_lists_can_be_made_while_the_service_is_stopped(tmp_path, make_csr):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", make_csr)
    async with place.serve() as service:
        made = await place.issue(service)
        before = x509.load_der_x509_crl(await fetch(service, "/ca/crl"))
    await place.run("revoke", made.serial.hex())
    said = await place.run("crl", "--out", str(tmp_path / "lists"))

    written = {path.name: x509.load_der_x509_crl(path.read_bytes()) for path in (tmp_path / "lists").iterdir()}
    assert sorted(written) == ["default-0.crl", "default-1.crl"]
    assert [one.serial_number for one in written["default-1.crl"]] == [int.from_bytes(made.serial)]
    assert written["default-1.crl"].is_signature_valid(loaded(made)[1].public_key())
    assert number_of(written["default-1.crl"]) > number_of(before)
    assert f"{tmp_path}/lists/default-1.crl: number {number_of(written['default-1.crl'])}, good until " in said
    (tmp_path / "file").touch()
    await place.run("crl", "--out", str(tmp_path / "file/lists"), wrong="cannot be written")


def number_of(crl: x509.CertificateRevocationList) -> int:
    return crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


# ---- Disaster


async def test_a_lost_issuing_key_is_replaced(place):
    async with place.serve() as service:
        before = await place.issue(service)
        ring = service.host("ca").keys.ring("ca:default:issuing")
        await ring.revoke(ring.active.info.kid)
    with pytest.raises(StartProblem, match=r"the key .* of the issuing certificate is gone; restore"):
        async with place.serve():
            pass
    await place.run("renew", "--same-key", wrong="it has no key here; leave --same-key out")
    await place.run("renew")

    async with place.serve() as service:
        assert (await place.issue(service)).chain != before.chain
        assert len(parts(service).authorities.generations["default"]) == 1


async def test_a_stolen_issuing_key_is_blocked_and_replaced(place):
    async with place.serve() as service:
        before = await place.issue(service)
        host = service.host("ca")
        stolen = spki_sha256(loaded(before)[1].public_key())
        await host.db.write(host.blocked_keys.block, stolen, reason="keyCompromise", by="alice")
    with pytest.raises(StartProblem, match="is blocked"):
        async with place.serve():
            pass
    for more in ((), ("--csr",)):
        await place.run("renew", "--same-key", *more, wrong="its key is blocked (keyCompromise); leave --same-key out")
    await place.run("renew")

    async with place.serve() as service:
        after = await place.issue(service)
        assert loaded(after)[1].public_key() != loaded(before)[1].public_key()


async def test_a_certificate_is_revoked_by_a_command(place):
    async with place.serve() as service:
        made = await place.issue(service)
    serial = ":".join(f"{byte:02X}" for byte in made.serial)
    assert made.serial.hex() in await place.run("revoke", serial, "--reason", "keyCompromise")
    await place.run("revoke", serial, wrong="the certificate is revoked")
    await place.run("revoke", "00", wrong="CA default has no certificate of this serial")
    await place.run("revoke", "xyz", wrong="expected hexadecimal digits")

    async with place.serve() as service:
        found = await service.kernel.service(ISSUANCE).certificate(made.id)
        assert (found.status, found.reason) == ("revoked", 1)


# ---- Cross-certificates

CAS = [{"id": "one", "is_default": True, "key_type": "ec:P-384"}, {"id": "two"}]


async def cross_certs(service: Service, path: str) -> list[x509.Certificate]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{service.addresses['main']}{path}") as reply:
        assert reply.status == 200
        body = await reply.read()
        return x509.load_pem_x509_certificates(body) if body else []


async def test_who_trusts_one_root_verifies_what_another_ca_issued(tmp_path, database_url, make_csr, pkilint):
    place = Place(tmp_path, database_url, make_csr, ca=CAS, server=PUBLIC)
    async with place.serve() as service:
        leaf, issuing = loaded(await place.issue(service, ca_id="two"))
        assert await cross_certs(service, "/ca/cross-certs") == []
    other = (await place.run("export", "--root", "--ca", "two")).encode()
    (cross,) = x509.load_pem_x509_certificates((await place.run("cross-sign", given=other)).encode())

    async with place.serve() as service:
        one = x509.load_der_x509_certificate(parts(service).authorities.issuing["one"].chain[-1])
        for path in ("/ca/cross-certs", "/ca/one/cross-certs", "/ca/two/cross-certs"):
            assert await cross_certs(service, path) == [cross]
        (row,) = await rows(service, SUBORDINATES)
        assert (row.ca_id, row.profile, row.status) == ("one", "cross", "issued")
    verifier = PolicyBuilder().store(Store([one])).time(datetime.now(UTC)).build_server_verifier(x509.DNSName("a.example.com"))
    assert len(verifier.verify(leaf, [issuing, cross])) == 4
    two = x509.load_pem_x509_certificate(other)
    assert (cross.subject, cross.public_key()) == (two.subject, two.public_key())
    kind = x509.SubjectKeyIdentifier
    assert cross.extensions.get_extension_for_class(kind).value == two.extensions.get_extension_for_class(kind).value
    assert cross.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(ca=True, path_length=1)
    assert cross.not_valid_after_utc - cross.not_valid_before_utc <= timedelta(days=5 * 365)
    assert pkilint.certificate(cross.public_bytes(Encoding.DER)) == []
    assert pkilint.chain(issuing.public_bytes(Encoding.DER), cross.public_bytes(Encoding.DER), one.public_bytes(Encoding.DER)) == []
    assert await place.run("export", "--cross") == pem(cross).decode()
    assert await place.run("export", "--cross", "--ca", "two") == ""


async def test_a_cross_certificate_ends_with_the_other_ca_and_with_the_root(tmp_path, make_csr):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", make_csr, ca={"ca_validity_years": 2, "validity_days": 30})
    async with place.serve():
        pass
    other = Elsewhere()
    (cross,) = x509.load_pem_x509_certificates((await place.run("cross-sign", given=pem(other.root))).encode())
    assert cross.not_valid_after_utc <= other.root.not_valid_after_utc
    request = x509.CertificateSigningRequestBuilder().subject_name(other.name).sign(other.key, hashes.SHA384())
    made = await place.run("cross-sign", "--years", "9", "--path-length", "2", given=request.public_bytes(Encoding.DER))
    (cross,) = x509.load_pem_x509_certificates(made.encode())
    root = x509.load_pem_x509_certificate((await place.run("export", "--root")).encode())
    assert cross.not_valid_after_utc <= root.not_valid_after_utc
    assert cross.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(ca=True, path_length=2)


@pytest.mark.parametrize("point", ["ca.ceremony.reserved", "ca.root.signed"])
async def test_a_cross_certificate_that_may_have_been_signed_is_in_the_inventory(place, point):
    async with place.serve():
        pass
    given = place.folder / "other"
    given.write_bytes(pem(Elsewhere().root))
    await killed(place, point, "cross-sign", str(given))
    assert await place.run("export", "--cross") == ""
    await place.run("renew")

    async with place.serve() as service:
        assert sorted((row.profile, row.status) for row in await rows(service, SUBORDINATES)) == [
            ("cross", "issued"),
            ("issuing", "issued"),
        ]
        (cross,) = await cross_certs(service, "/ca/cross-certs")
        cross.verify_directly_issued_by(x509.load_der_x509_certificate(parts(service).authorities.issuing["default"].chain[-1]))


def changed(request: x509.CertificateSigningRequest) -> bytes:
    return request.public_bytes(Encoding.DER)[:-1] + b"\x00"


def nameless() -> x509.CertificateSigningRequest:
    return (
        x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )


async def test_what_is_no_ca_is_not_cross_signed(tmp_path, make_csr):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", make_csr)
    async with place.serve():
        pass
    other = Elsewhere()
    old = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old")])
    private = other.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    own = (await place.run("export")).encode()
    for given, words in (
        (b"nonsense", "is no certificate and no request of a CA"),
        (private, "is no certificate and no request of a CA"),
        (pem(other.sign(old, other.key.public_key(), None, ca=False)), "is no CA certificate"),
        (pem(other.sign(old, other.key.public_key(), None, days=1)), "the certificate of the other CA has ended"),
        (changed(x509.CertificateSigningRequestBuilder().subject_name(old).sign(other.key, hashes.SHA256())), "request"),
        (nameless().public_bytes(Encoding.DER), "is a request without a subject"),
        (own, "what was given is of a key of this CA itself"),
    ):
        await place.run("cross-sign", given=given, wrong=words)


# ---- What is shown


@pytest.mark.parametrize(("number", "serial"), [(0xABC, "0abc"), (0xABCD, "abcd"), (1, "01")])
def test_a_serial_is_shown_in_whole_octets_as_revoke_reads_it(brought, number, serial):
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(brought.root.subject, brought.root.subject, key.public_key(), number)
    builder = builder.not_valid_before(brought.root.not_valid_before_utc).not_valid_after(brought.root.not_valid_after_utc)

    assert _described(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER))[1].startswith(f"serial {serial}, ")


async def test_cas_are_shown_with_their_certificates_and_without_private_keys(tmp_path, make_csr, brought):
    files = {"key_file": str(brought.key_file), "cert_file": str(brought.cert_file)}
    cas = [{"id": "one", "is_default": True}, {"id": "two", **files}, {"id": "three"}]
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", make_csr, ca=cas)
    async with place.serve():
        shown = await place.run("show")  # beside the service
        await place.run("renew", wrong="stop the service first")
    await place.run("renew", "--csr", "--ca", "three")

    assert "CA one (default), profiles default\n  issuing certificate, generation 1, key " in shown
    assert f"CA two, profiles default\n  key in {brought.key_file}\n" in shown
    fingerprint = hashes.Hash(hashes.SHA256())
    fingerprint.update(brought.root.public_bytes(Encoding.DER))
    assert "SHA-256 " + ":".join(f"{byte:02X}" for byte in fingerprint.finalize()) in shown
    assert "waits for its certificate by a root elsewhere" in await place.run("show")
    for words in (("show",), ("export",), ("export", "--ca", "two"), ("export", "--csr", "--ca", "three")):
        assert "PRIVATE" not in await place.run(*words)
    await place.run("renew", "--ca", "two", wrong=f"its key is {brought.key_file}; have a certificate made for that key")
    await place.run("export", "--ca", "four", wrong="there is no CA 'four'; there is one, two, three")
