"""The decisive lines of workloads, certificates, logs and platforms, run against the fakes of greatseal.testing."""

from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from architecture.stand_ins import ACCOUNT, END, Ring, Threads, host
from architecture.typing import (
    finalization,
    identifier_types,
    identities,
    issuers,
    key_stores,
    log_backends,
    operators,
    peers,
    validators,
    workloads,
)
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import Column, MetaData, delete, insert, select, update

from greatseal import der
from greatseal.api.acme import VALID, WAIT, Challenge, Identifier
from greatseal.api.http import Operator, OperatorCaller, Route
from greatseal.api.issuance import Draft, Finalization, ProvenIdentifier
from greatseal.api.nodes import Forwarded, Forwarding, OwnerUnavailable
from greatseal.api.problems import BadRequest, IncorrectResponse, NotFound
from greatseal.api.services import CHALLENGES
from greatseal.api.store import Tx, operation
from greatseal.db.tables import Blob, Serial, State, Text, param, table
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import parse_compact
from greatseal.testing import FakeClock
from greatseal.testing.acme import FakeChallenges
from greatseal.testing.calls import FakeCall
from greatseal.testing.directories import FakeDirectories
from greatseal.testing.finalization import SanInjectorContract
from greatseal.testing.identifiers import ExtensionIdentifierContract
from greatseal.testing.issuance import PROFILE, FakeIssuance, csr_for, issuance_for
from greatseal.testing.keystores import KeyStoreContract
from greatseal.testing.schemes import AuthSchemeContract
from greatseal.testing.store import make_tables, open_test_database
from greatseal.testing.validators import attempt_for

# ---- workload


async def test_spiffe() -> None:
    directories = FakeDirectories(hosts={"a.example": frozenset({"web"})})
    entries = [
        workloads.Entry(spiffe_id="spiffe://x/web", selectors={"Hostgroup": "web"}),
        workloads.Entry(spiffe_id="spiffe://x/root", selectors={"Hostgroup": "web", "Uid": 0}),
    ]
    selectors = {"Hostgroup": identities.Hostgroup(directories), "Uid": identities.Uid()}
    ring: Any = Ring()
    spiffe = workloads.Spiffe(ring, FakeClock(), selectors, entries)

    assert await spiffe.attest(workloads.Workload(node_id="n1", hostname="a.example", uid=1000)) == ["spiffe://x/web"]
    jws = parse_compact(await spiffe.svid("spiffe://x/web", "db"))
    jws.verify(ring.active.public_key)
    bundle = msgspec.json.decode((await spiffe.bundle(FakeCall())).body)
    assert bundle["keys"][0]["use"] == "jwt-svid"


async def test_spiffe_workload(tmp_path: Path) -> None:
    import asyncio
    import os

    async def answer(workload: Any) -> bytes:
        facts = await identities.Uid().facts(workload, frozenset({os.getuid()}))
        return f"{workload.peer.pid} {facts == {os.getuid()}}".encode()

    socket = workloads.WorkloadSocket(host(), tmp_path / "workload.sock", answer)
    (lifespan,) = socket.lifespans()
    async with lifespan.open():
        reader, writer = await asyncio.open_unix_connection(socket.path)
        assert (await reader.read()).decode() == f"{os.getpid()} True"
        writer.close()
        await writer.wait_closed()


def test_spiffe_proxy() -> None:
    said = CliRunner().invoke(workloads.spiffe_proxy, ["--server", "https://idp.example"])

    assert said.exit_code == 0
    assert said.output.startswith("POST https://idp.example/spiffe/issue-svid {")


# ---- certificates


async def test_onion_csr_01(monkeypatch: pytest.MonkeyPatch) -> None:
    onion, other = ed25519.Ed25519PrivateKey.generate(), csr_for(Identifier("dns", "x.onion"))
    monkeypatch.setattr(validators, "onion_key", lambda _: onion.public_key())
    validator, tx = validators.OnionCsr01(), SimpleNamespace()
    identifier = Identifier("dns", "x.onion")
    attempt = attempt_for(validator, identifier)
    extension = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3"), attempt.key_authorization.encode())
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(extension, critical=False).sign(onion, None)
    mine = msgspec.structs.replace(other, csr=csr)

    made = validator.create(tx, attempt.challenge)  # type: ignore[arg-type]
    good = msgspec.structs.replace(made, csr=csr.public_bytes(Encoding.DER))
    assert await validator.validate(attempt_for(validator, identifier, kept=good)) is VALID
    with pytest.raises(IncorrectResponse):
        await validator.validate(attempt_for(validator, identifier, kept=msgspec.structs.replace(made, csr=other.der)))

    proven_by = ProvenIdentifier(identifier=identifier, validated_by="onion-csr-01")
    order = Finalization(
        order_id="o1", profile=PROFILE, identifiers=(proven_by,), account=ACCOUNT, csr=other, ca_id="default", payload={},
    )  # fmt: skip
    await validators.OnionKeyIsNotReused().check(order)
    with pytest.raises(BadRequest.__bases__[0], match="is that of"):
        await validators.OnionKeyIsNotReused().check(msgspec.structs.replace(order, csr=mine))


async def test_email_reply_00() -> None:
    sent: list[Any] = []

    async def send(address: str, mail: Any) -> None:
        sent.append((address, mail))

    kept = validators.MailSent("part1", "<1@acme.example>")
    challenge = Challenge(
        id="c1", type="email-reply-00", status="processing", token="t", identifier=Identifier("email", "a@a.example"), wildcard=False,
        authorization_id="z1", account_id="a1", account_url=ACCOUNT.url, expires=END * 1_000_000, kept=kept,
    )  # fmt: skip
    challenges = FakeChallenges(challenge)
    validator = validators.EmailReply00(host({CHALLENGES: challenges}), send, "post")
    attempt = attempt_for(validator, challenge.identifier, kept=kept)

    await validator.start(attempt)
    assert await validator.validate(attempt) is WAIT
    assert sent == [("a@a.example", kept)]
    expected = urlsafe_b64encode(sha256(f"part1t.{ACCOUNT.thumbprint}".encode()).digest()).rstrip(b"=").decode()
    assert validator.judge(challenge, ACCOUNT, validators.MailReply("<1@acme.example>", "a@a.example", expected)) == ""
    assert "does not hold" in validator.judge(challenge, ACCOUNT, validators.MailReply("<1@acme.example>", "b@a.example", expected))


class TestTnAuthList(ExtensionIdentifierContract):
    identifiers = identifier_types.TnAuthList()
    values = (urlsafe_b64encode(der.sequence(b"\x05\x00")).rstrip(b"=").decode(),)
    refused = ("x",)


class TestKerberosPrincipalName(SanInjectorContract):
    gives = issuance_for(account=msgspec.structs.replace(ACCOUNT, kerberos_principal="host/a@EXAMPLE"))
    refuses = issuance_for(account=ACCOUNT)

    def injector(self) -> Any:
        settings = {"default": finalization.KerberosNames(inject_account_kpn=True)}
        here = host(settings_by_key=lambda _: settings)
        return finalization.KerberosPrincipalName(
            here, lambda principal: der.sequence(b"\x0c" + bytes([len(principal)]) + principal.encode())
        )


class TestOperators(AuthSchemeContract):
    rule = Operator(("auditor",))

    def scheme(self) -> Any:
        ann, bob = (OperatorCaller(subject=name, role=role) for name, role in (("ann", "auditor"), ("bob", "guest")))
        return operators.Operators({sha256(b"ann").hexdigest(): ann, sha256(b"bob").hexdigest(): bob})

    async def call(self, *, right: bool) -> FakeCall:
        call = FakeCall(route=Route("GET", "/admin/x", None, auth=self.rule))  # type: ignore[arg-type]
        call.connection.certificate = b"ann" if right else b"bob"
        return call


async def test_ca_admin(tmp_path: Path) -> None:
    issuance = FakeIssuance()
    async with open_test_database(f"sqlite:///{tmp_path}/admin.db") as store:
        admin = operators.CertificatesAdmin(issuance, store)
        prepared = await store.write(issuance.reserve, await issuance.compose(issuance_for()))
        await store.write(issuance.record, prepared, await issuance.issue(prepared))

        def calling(ca_id: str | None, content: bytes = b"") -> FakeCall:
            call = FakeCall(content=content)
            call.path, call.caller = {"id": prepared.id}, OperatorCaller(subject="ann", role="administrator", ca_id=ca_id)
            return call

        assert msgspec.json.decode((await admin.listed(calling(None))).body) == [{"id": prepared.id, "status": "issued"}]
        assert msgspec.json.decode((await admin.listed(calling("another"))).body) == []
        with pytest.raises(NotFound):
            await admin.revoke(calling("another", b"{}"))
        await admin.revoke(calling("default", b'{"reason":1}'))
    assert issuance.inventory[prepared.id].reason == 1
    assert {route.path for route in admin.routes()} == {"/admin/certificates", "/admin/certificates/{id}/revocation"}


# ---- log and platform

metadata = MetaData()
entry = table(
    "t_entry", metadata, State.OWNED, Column("cert_id", Text, primary_key=True), Column("entry", Blob, nullable=False),
    Column("log_index", Serial),
)  # fmt: skip


class Mtc(issuers.MtcIssuer):
    QUEUE = insert(entry).values(cert_id=param("cert_id"), entry=param("entry"))
    INDEX = update(entry).where(entry.c.cert_id == param("cert_id")).values(log_index=param("log_index"))
    INDEX_OF = select(entry.c.log_index).where(entry.c.cert_id == param("cert_id"), entry.c.log_index.is_not(None))
    FORGET = delete(entry).where(entry.c.cert_id == param("cert_id"))


async def test_mtc(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    url, ring, issuance = f"sqlite:///{tmp_path}/mtc.db", Ring(), FakeIssuance()
    make_tables(url, metadata)
    await ring.make("ec:P-256")
    async with open_test_database(url) as store, log_backends.FilesBackend(tmp_path).hold("log") as log:
        issuer: Any = Mtc(host(db=store, keys=SimpleNamespace(ring=lambda _: ring)), log, 7)
        draft: Draft = await issuance.compose(issuance_for())
        prepared = await store.write(issuance.reserve, draft)
        await store.write(issuer.prepare, draft)

        issued = await issuer.issue(prepared)
        again = await issuer.settle(prepared)
        head = await log.head()

    assert head is not None
    assert (head.size, issued.serial, again.serial) == (1, (7 << 48).to_bytes(7), issued.serial)
    assert prepared.tbs[-64:] in issued.der


class Note(msgspec.Struct, frozen=True):
    text: str


@operation("note", lambda note: "n2")
def keep(_tx: Tx, note: Note) -> Note:
    return Note(note.text.upper())


async def test_cluster_nats(tmp_path: Path) -> None:
    handlers: dict[str, Any] = {}

    async def request(subject: str, content: bytes) -> bytes:
        if subject not in handlers:
            raise ConnectionError("nobody listens")
        return await handlers[subject](content)  # type: ignore[no-any-return]

    async def answer(_forwarded: Forwarded) -> Forwarding:
        return Forwarding(outcome="busy")

    bus: Any = SimpleNamespace(answer=handlers.__setitem__, request=request)
    call = Forwarded(
        op_id="1", boot="b", method="GET", target="/", headers=(), body=b"", remote="192.0.2.1", certificate=None, seen=0, deadline_ms=1,
    )  # fmt: skip
    async with open_test_database(f"sqlite:///{tmp_path}/n2.db", node_id="n2") as store:
        one, two = peers.BusPeers(bus, "n1", ["n2"], store), peers.BusPeers(bus, "n2", ["n1"], store)
        with pytest.raises(OwnerUnavailable):
            await one.ask("n2", call)
        two.serve("b", answer, {"note": keep})

        assert await one.ask("n2", call) == Forwarding(outcome="busy")
        assert await one.forward("n2", SimpleNamespace(name="note"), keep, Note("a")) == Note("A")  # type: ignore[arg-type]
        await one.caught_up("n2", 0)
        assert two.boot("n2") == "b"


class SoftToken:
    """A token in memory; ``gone`` is one that was pulled out."""

    def __init__(self) -> None:
        self.keys = {"brought": ec.generate_private_key(ec.SECP256R1())}

    def generate(self) -> str:
        label = f"key-{len(self.keys)}"
        self.keys[label] = ec.generate_private_key(ec.SECP256R1())
        return label

    def public(self, label: str) -> Any:
        return self.keys[label].public_key() if label in self.keys else None

    def sign(self, label: str, message: bytes) -> bytes:
        return ALGORITHMS["ES256"].sign(self.keys[label], message)

    def destroy(self, label: str) -> None:
        self.keys.pop(label, None)


class TestPkcs11(KeyStoreContract):
    words, absent, no_words = "object=brought", "object=another", ("", "brought", "object=")

    @pytest.fixture(autouse=True)
    def _token(self) -> None:
        self.token = SoftToken()

    def store(self) -> Any:
        return key_stores.Pkcs11(self.token, Threads())  # type: ignore[arg-type]
