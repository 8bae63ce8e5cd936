"""The contracts of who adds to issuances or watches them and of account bindings, and some that break them; the ISSUANCE of unit tests."""

from functools import partial

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import Column, MetaData, insert, select, update

from greatseal.api.acme import (
    AccountBinding,
    AccountView,
    BadCsr,
    Binding,
    Identifier,
    InvalidProfile,
    RejectedIdentifier,
    Unauthorized,
    UnsupportedIdentifier,
)
from greatseal.api.inventory import CertificateQuery
from greatseal.api.issuance import IssuanceObserver, SanInjector
from greatseal.api.problems import BadRequest, Conflict, NotFound
from greatseal.api.store import Refuse
from greatseal.db.tables import Flag, State, Text, param, table
from greatseal.testing.acme import AccountBindingContract
from greatseal.testing.finalization import IssuanceObserverContract, SanInjectorContract
from greatseal.testing.issuance import PROFILE, FakeIssuance, csr_for, issuance_for
from greatseal.testing.store import make_tables, open_test_database

metadata = MetaData()
noted = table("t_noted", metadata, State.APPEND_ONLY, Column("id", Text, nullable=False), Column("what", Text, nullable=False))
voucher = table("t_voucher", metadata, State.OWNED, Column("word", Text, primary_key=True), Column("used", Flag, nullable=False))
NOTE = insert(noted).values(id=param("id"), what=param("what"))
NOTED = select(noted).order_by(noted.c.id, noted.c.what)
MAKE = insert(voucher).values(word=param("word"), used=0)
USE = update(voucher).where(voucher.c.word == param("word"), voucher.c.used == 0).values(used=1)
ACCOUNT = AccountView(id="a1", url="https://ca.example/acme/account/a1", status="valid", thumbprint="t" * 43)
PRINCIPAL = "host/a.example@EXAMPLE"


@pytest.fixture
async def store(tmp_path):
    url = f"sqlite:///{tmp_path}/issuance.db"
    make_tables(url, metadata)
    async with open_test_database(url) as opened:
        yield opened


# ---- SAN injectors


class Principal(SanInjector):
    """The principal of the account as a URI."""

    name = "principal"

    def names(self, issuance):
        account = issuance.account
        if account is None:
            raise Unauthorized("the profile asks for a principal and there is no account")
        return [x509.UniformResourceIdentifier(f"krb5:{account.kerberos_principal}")] if account.kerberos_principal else []


class TestPrincipal(SanInjectorContract):
    gives = issuance_for(account=msgspec.structs.replace(ACCOUNT, kerberos_principal=PRINCIPAL))
    silent = issuance_for(account=ACCOUNT)
    refuses = issuance_for()

    def injector(self):
        return Principal()


def injector(names):
    """A test class whose injector gives those names, whatever it is asked."""

    class Wrong(SanInjector):
        name = "wrong"

        def names(self, issuance):
            return names(issuance)

    contract = TestPrincipal()
    contract.injector = Wrong
    return contract


COUNT = iter(range(1_000))
A_NAME = x509.DNSName("a.example")


@pytest.mark.parametrize(
    ("names", "promise"),
    [
        (lambda _: [], "names_can_be_encoded_and_are_the_same_each_time"),
        (lambda _: ["a.example"], "names_can_be_encoded_and_are_the_same_each_time"),
        (lambda _: [A_NAME, A_NAME], "names_can_be_encoded_and_are_the_same_each_time"),
        (lambda _: [x509.DNSName(f"{next(COUNT)}.example")], "names_can_be_encoded_and_are_the_same_each_time"),
        (lambda _: [A_NAME], "where_it_has_nothing_to_add_it_adds_nothing"),
        (lambda _: None, "where_it_has_nothing_to_add_it_adds_nothing"),
        (lambda _: [], "what_it_refuses_is_told_to_the_client"),
    ],
)
def test_the_contract_notices_an_injector_that_breaks_a_promise(names, promise):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(injector(names), f"test_{promise}")()


# ---- Observers


class Ledger(IssuanceObserver):
    """A row for each certificate and each revocation."""

    def issued(self, tx, certificate):
        tx.run(NOTE, id=certificate.id, what="issued")

    def revoked(self, tx, certificate, reason):
        tx.run(NOTE, id=certificate.id, what=f"revoked {reason}")


class TestLedger(IssuanceObserverContract):
    @pytest.fixture(autouse=True)
    def _store(self, store):
        self.store, self.made = store, Ledger()

    def observer(self):
        return self.made

    def database(self):
        return self.store

    async def seen(self):
        return [tuple(row) for row in await self.store.read(lambda tx: tx.all(NOTED))]


class InMemory(IssuanceObserver):
    """Notes at once what may never commit."""

    def __init__(self):
        self.seen = []

    def issued(self, tx, certificate):
        self.seen.append(certificate.serial.hex())

    def revoked(self, tx, certificate, reason):
        self.seen.append({0: "a", 1: "b", None: "c", 4: "d"}[reason])


@pytest.mark.parametrize(
    ("promise", "arguments"),
    [
        ("what_it_notes_commits_with_the_certificate_and_not_without", ()),
        ("a_revocation_commits_or_leaves_nothing", ()),
        ("no_certificate_stops_the_issuance", ()),
        ("no_revocation_is_stopped_not_even_of_what_it_never_saw", (10,)),
    ],
)
async def test_the_contract_notices_an_observer_that_breaks_a_promise(store, promise, arguments):
    contract = TestLedger()
    contract.store, contract.made = store, InMemory()

    async def seen():
        return contract.made.seen

    contract.seen = seen

    with pytest.raises((AssertionError, AttributeError, KeyError)):
        await getattr(contract, f"test_{promise}")(*arguments)


# ---- Account bindings


class Voucher(AccountBinding):
    """A word that is good once."""

    member = "voucher"

    def bind(self, tx, request):
        word = request.value.get("word") if isinstance(request.value, dict) else None
        if not isinstance(word, str):
            raise Refuse(BadRequest("voucher: expected an object with word"))
        if not tx.count(USE, word=word):
            raise Refuse(Unauthorized("the voucher is unknown or was used"))
        return Binding(echo=request.value, profile_grants=("special",))


class TestVoucher(AccountBindingContract):
    @pytest.fixture(autouse=True)
    def _store(self, store):
        self.store, self.made, self.count, self.wrong = store, Voucher(), 0, {"word": "none"}

    def binding(self):
        return self.made

    def database(self):
        return self.store

    async def sent(self, request):
        self.count += 1
        word = f"word {self.count}"
        await self.store.write(lambda tx: tx.run(MAKE, word=word))
        return {"word": word}


class Careless(Voucher):
    """Takes whatever looks right, uses it up before the transaction commits, and believes what a client says of nodes."""

    member = "Careless member"

    def __init__(self):
        self.used = []

    def owner(self, request):
        return str(request.value)

    def bind(self, tx, request):
        word = request.value["word"]
        self.used.append(word)
        return Binding(echo=len(self.used))


@pytest.mark.parametrize(
    "promise",
    [
        "an_account_that_was_not_made_uses_nothing_up",
        "what_bound_one_account_binds_no_other",
        "what_is_wrong_is_refused_and_no_error",
        "the_owner_is_a_label_or_nobody_whatever_is_sent",
    ],
)
async def test_the_contract_notices_a_binding_that_breaks_a_promise(store, promise):
    contract = TestVoucher()
    contract.store, contract.made, contract.count, contract.wrong = store, Careless(), 0, {"word": "none"}

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await getattr(contract, f"test_{promise}")()


@pytest.mark.parametrize("member", ["Careless member", "contact", ""])
def test_the_contract_notices_a_binding_with_a_member_of_others(member):
    contract = TestVoucher()
    contract.made = Voucher()
    contract.made.member = member

    with pytest.raises(AssertionError):
        contract.test_declares_itself()


# ---- ISSUANCE


async def issued(store, issuance, request=None):
    """A certificate, as whoever asks for one goes about it."""
    draft = await issuance.compose(request or issuance_for())
    prepared = await store.write(issuance.reserve, draft)
    return await store.write(issuance.record, prepared, await issuance.issue(prepared))


async def test_the_fake_issuance_certifies_the_key_and_the_names_of_a_request(store):
    names = (Identifier("dns", "*.a.example"), Identifier("ip", "2001:db8::1"), Identifier("email", "a@a.example"))
    issuance, request = FakeIssuance(Ledger()), issuance_for(*names, account=ACCOUNT)

    assert issuance.read_csr(request.csr.der) == request.csr
    issuance.match(request.csr, names)
    certificate = await issued(store, issuance, request)

    read = x509.load_der_x509_certificate(certificate.der)
    assert read.public_key() == request.csr.public_key
    assert x509.DNSName("*.a.example") in read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert (certificate.status, certificate.account_id, int.from_bytes(certificate.serial)) == ("issued", "a1", read.serial_number)
    assert await issuance.certificate(certificate.id) == certificate
    assert [row.what for row in await store.read(lambda tx: tx.all(NOTED))] == ["issued"]


async def test_the_fake_issuance_refuses_what_the_authority_refuses():
    issuance = FakeIssuance()
    issuance.refused = frozenset({"b.example"})

    for identifier, refusal in (("dns", RejectedIdentifier), ("hardware", UnsupportedIdentifier)):
        with pytest.raises(refusal):
            issuance.check_identifier(PROFILE, Identifier(identifier, "b.example"))
    for der in (b"", b"0\x00", csr_for(Identifier("dns", "a.example")).der[:-1] + b"\0"):
        with pytest.raises(BadCsr):
            issuance.read_csr(der)
    with pytest.raises(BadCsr, match=r"a\.example"):
        issuance.match(csr_for(Identifier("dns", "a.example")), ())
    with pytest.raises(InvalidProfile):
        issuance.profile("another")
    assert (issuance.profile(None), issuance.profiles("another")) == (PROFILE, {})
    now = issuance.clock.now()
    for begin, end in ((now, now - 1), (now, now + 2 * 86_400_000_000)):
        with pytest.raises(BadRequest):
            issuance.check_validity(PROFILE, begin, end)


async def test_the_fake_issuance_decides_a_reservation_once(store):
    issuance = FakeIssuance()
    prepared = await store.write(issuance.reserve, await issuance.compose(issuance_for()))
    assert await store.read(issuance.reserved, prepared.id) == prepared
    assert await issuance.settle(prepared) == await issuance.issue(prepared)

    def undone(tx):
        issuance.abandon(tx, prepared)
        raise Refuse(BadRequest("undone"))

    with pytest.raises(BadRequest):
        await store.write(undone)
    assert await store.read(issuance.reserved, prepared.id) == prepared
    await store.write(issuance.abandon, prepared)
    assert (await issuance.certificate(prepared.id)).status == "unknown"
    with pytest.raises(Conflict):
        await store.write(issuance.record, prepared, await issuance.issue(prepared))
    assert await FakeIssuance().settle(prepared) is None


async def test_the_fake_issuance_revokes_once_and_lists_the_newest_first(store):
    issuance = FakeIssuance(Ledger())
    made = [await issued(store, issuance) for _ in range(3)]

    revoked = await store.write(lambda tx: issuance.revoke(tx, made[0].id, 1, by="ann"))

    assert (revoked.status, revoked.reason) == ("revoked", 1)
    assert await store.read(issuance.find, "default", made[1].serial) == made[1]
    assert await store.read(issuance.find, "another", made[1].serial) is None
    authority = x509.load_der_x509_certificate(made[1].der).extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    assert await store.read(issuance.named, authority.value.key_identifier, made[1].serial) == made[1]
    assert await store.read(issuance.named, b"another", made[1].serial) is None
    for id, reason, refusal in ((made[0].id, 1, Conflict), ("none", 1, NotFound), (made[1].id, 2, BadRequest)):
        with pytest.raises(refusal):
            await store.write(partial(issuance.revoke, id=id, reason=reason, by="ann"))
    listed = await issuance.certificates(CertificateQuery(limit=2))
    assert [one.id for one in listed] == [made[2].id, made[1].id]
    assert await issuance.certificates(CertificateQuery(before=made[1].id)) == [revoked]
    assert await issuance.certificates(CertificateQuery(status="revoked")) == [revoked]
    assert x509.load_der_x509_certificate(revoked.der).public_bytes(Encoding.DER) == made[0].der
