"""The revocation lists of this service: numbered and recorded, then signed, then served from memory (RFC 5280 s5, R120)."""

import asyncio
from collections.abc import Sequence
from email.utils import formatdate
from hashlib import sha256
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from sqlalchemy import delete, or_, select, update

from greatseal import der, faults
from greatseal.api.http import Call, Reply
from greatseal.api.issuance import Certificate
from greatseal.api.keys import Signer
from greatseal.api.moments import SECOND
from greatseal.api.problems import Internal, Unavailable
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal_ca.algorithms import HASHES, verify
from greatseal_ca.build import authority_key_identifier
from greatseal_ca.crl import Entry, List, made, scope_of
from greatseal_ca.generations import OF_ROOT
from greatseal_ca.pointers import Pointers
from greatseal_ca.settings import CaSettings
from greatseal_ca.shards import OPENED, Shards
from greatseal_ca.tables import crl, crl_base, crl_number, revocation
from greatseal_ca.validity import DAY

MEDIA_TYPE = "application/pkix-crl"
KEPT = 90 * DAY
"""How long the digest of a list is kept."""
BITE = 500

_STATE = select(crl.c.kid, crl.c.revision, crl.c.number).where(crl.c.ca_id == param("ca_id"), crl.c.shard == param("shard"))
_BEHIND = select(crl.c.ca_id, crl.c.shard).where(crl.c.made_revision < crl.c.revision)
_ENTRIES = (
    select(revocation.c.serial, revocation.c.revoked_at, revocation.c.reason)
    .where(
        revocation.c.ca_id == param("ca_id"),
        revocation.c.shard == param("shard"),
        or_(revocation.c.not_after >= param("told"), revocation.c.revoked_at >= param("told")),
    )
    .order_by(revocation.c.serial)
)
_NEXT = (
    update(crl)
    .where(crl.c.ca_id == param("the_ca"), crl.c.shard == param("the_shard"), crl.c.number == param("before"))
    .values(number=param("number"), made_revision=param("made_revision"))
)
_RECORD = insert_new(crl_number)
_KEEP_BASE = insert_new(crl_base)
_BASES = select(crl_base.c.base).where(crl_base.c.ca_id == param("ca_id")).order_by(crl_base.c.base)
_OLD_NUMBERS = (
    select(crl_number.c.number)
    .where(crl_number.c.ca_id == param("ca_id"), crl_number.c.shard == param("shard"), crl_number.c.made_at < param("passed"))
    .order_by(crl_number.c.number)
    .limit(BITE)
)
_DROP_NUMBERS = delete(crl_number).where(
    crl_number.c.ca_id == param("ca_id"), crl_number.c.shard == param("shard"), crl_number.c.number <= param("last")
)
_TOLD = (
    select(revocation.c.serial)
    .where(
        revocation.c.ca_id == param("ca_id"),
        revocation.c.shard == param("shard"),
        revocation.c.not_after < param("told"),
        revocation.c.revoked_at < param("told"),
    )
    .limit(BITE)
)
_DROP_TOLD = delete(revocation).where(
    revocation.c.ca_id == param("ca_id"), revocation.c.shard == param("shard"), revocation.c.serial == param("serial")
)


class Signing(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs lists: a CA certificate with its key. ``algorithm`` is a DER AlgorithmIdentifier, ``subject`` a DER Name."""

    signer: Signer
    certificate: x509.Certificate
    subject: bytes
    algorithm: bytes

    @property
    def may_sign_lists(self) -> bool:
        """Whether the certificate allows it (RFC 5280 s4.2.1.3)."""
        try:
            return self.certificate.extensions.get_extension_for_class(x509.KeyUsage).value.crl_sign
        except x509.ExtensionNotFound:
            return True


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A list as it is sent. Moments are microseconds."""

    der: bytes
    number: int
    this_update: int
    next_update: int

    def answer(self, call: Call, now: int) -> Reply:
        """Caches may keep it until the next one; 304 for who has it already (RFC 9110 s13.1.2)."""
        etag = f'"{self.number}"'
        seconds = max(0, self.next_update - now) // SECOND
        headers = (
            ("ETag", etag),
            ("Cache-Control", f"public, max-age={seconds}"),
            ("Last-Modified", formatdate(self.this_update // SECOND, usegmt=True)),
            ("Expires", formatdate(self.next_update // SECOND, usegmt=True)),
        )
        known = call.headers.get("If-None-Match")
        if known is not None and (known == "*" or etag in (tag.strip().removeprefix("W/") for tag in known.split(","))):
            return Reply(status=304, headers=headers)
        return Reply(body=self.der, content_type=MEDIA_TYPE, headers=headers)


class Listing:
    """One list. Who asks for a fresh one gets one whose making began afterwards; all who ask meanwhile share the next."""

    def __init__(self, ca_id: str, shard: int, signing: Signing, scope: x509.IssuingDistributionPoint | None) -> None:
        self.ca_id = ca_id
        self.shard = shard
        self.signing = signing
        self.scope = scope
        self.served: Served | None = None
        self.making = asyncio.Lock()
        self.wanted = self.done = 0

    def is_due(self, now: int) -> bool:
        """Whether half of its time is over, or the clock says that it is not there yet."""
        served = self.served
        return served is None or not served.this_update <= now < (served.this_update + served.next_update) // 2


class Lists:
    """All lists of the CAs of this service."""

    def __init__(self, host: Host, settings: dict[str, CaSettings], pointers: Pointers, shards: Shards) -> None:
        self._host = host
        self._settings = settings
        self._pointers = pointers
        self._shards = shards
        self._listings: dict[tuple[str, int], Listing] = {}
        self._signing: dict[str, Signing] = {}
        self._bases: dict[str, list[str]] = {}
        host.changes.subscribe(OPENED, self._opened)

    async def open(self, ca_id: str, signing: Signing, root: Signing | None) -> None:
        """The lists that the keys of a CA sign, made now: whatever was published before has a lower number."""
        if root is not None and root.may_sign_lists:
            # A root that also signs end entities tells of CAs alone on this one.
            scope = scope_of((), cas=True) if root.signer.info.spki == signing.signer.info.spki else None
            await self._host.db.write(self._add_root, ca_id, root.signer.info.kid)
            self._listings[ca_id, OF_ROOT] = Listing(ca_id, OF_ROOT, root, scope)
        if signing.may_sign_lists:
            self._signing[ca_id] = signing
            self._bases[ca_id] = await self._host.db.write(_keep_bases, ca_id, self._pointers.bases(ca_id))
            for shard in await self._host.db.write(self._shards.open, ca_id, signing.signer.info.kid):
                self._listings[ca_id, shard] = self._listing(ca_id, shard, signing)
        else:
            self._host.log.warning("the CA certificate does not allow revocation lists (keyUsage cRLSign); OCSP alone tells", ca=ca_id)
            self._pointers.silent.add(ca_id)
        for listing in [one for (of, _), one in self._listings.items() if of == ca_id]:
            await self._try(listing)

    async def keep(self, ca_id: str, signing: Signing) -> None:
        """The lists of a key that signed before: they are made as long as the key is here, and no certificate is added to them."""
        if signing.may_sign_lists:
            self._bases.setdefault(ca_id, [])
            for shard in await self._host.db.read(self._shards.of_key, ca_id, signing.signer.info.kid):
                self._listings[ca_id, shard] = listing = self._listing(ca_id, shard, signing)
                await self._try(listing)

    async def publish(self, revoked: Sequence[Certificate]) -> None:
        """See :meth:`greatseal.api.issuance.Issuance.publish`."""
        named = dict.fromkeys((one.ca_id, one.crl_shard) for one in revoked if one.crl_shard is not None)
        await self._all_fresh([self._listings[key] for key in named if key in self._listings])

    async def find(self, ca_id: str, shard: int) -> Served | None:
        """The list as it is now; None where this service signs none of that number. Raises Unavailable."""
        listing = self._listings.get((ca_id, shard))
        if listing is not None and listing.served is None:
            await self.fresh(listing)
        return None if listing is None else listing.served

    def served(self, ca_id: str) -> list[tuple[int, Served]]:
        """The lists of a CA that were made, by their numbers."""
        return [(shard, one.served) for (of, shard), one in sorted(self._listings.items()) if of == ca_id and one.served]

    async def force(self, ca_id: str) -> list[int]:
        """Make all lists of a CA again; their numbers. Raises Unavailable."""
        listings = [one for (of, _), one in self._listings.items() if of == ca_id]
        await self._all_fresh(listings)
        return [one.served.number for one in listings if one.served]

    async def fresh(self, listing: Listing) -> None:
        """A list that was begun after this call. Raises Unavailable when it cannot be signed now."""
        listing.wanted += 1
        ticket = listing.wanted
        async with listing.making:
            if listing.done < ticket:
                wanted = listing.wanted
                listing.served = await self._make(listing)
                listing.done = wanted

    async def run(self) -> None:
        """The job: what is behind its revocations, and what has lived for half of its time."""
        behind = await self._host.db.read(_behind)
        now = self._host.clock.now()
        for key, listing in list(self._listings.items()):
            if key in behind or listing.is_due(now):
                await self._try(listing)

    async def tidy(self) -> None:
        """The job: expired certificates make room, entries that were told long enough and old digests leave."""
        passed = self._host.clock.passed()
        for (ca_id, shard), listing in list(self._listings.items()):
            if shard != OF_ROOT and listing.signing is self._signing.get(ca_id):
                self._shards.recounted(ca_id, shard, await self._host.db.write(self._shards.recount, ca_id, shard, passed))
            while await self._host.db.write(_drop_old, ca_id, shard, passed - KEPT):
                pass
            while await self._host.db.write(_drop_told, ca_id, shard, self._told_until(listing)):
                pass

    async def _all_fresh(self, listings: Sequence[Listing]) -> None:
        """One after another; one that cannot be made does not keep the others from it."""
        problems = []
        for listing in listings:
            try:
                await self.fresh(listing)
            except (Unavailable, Internal) as problem:
                problems.append(problem)
        if problems:
            raise problems[0]

    async def _try(self, listing: Listing) -> None:
        try:
            await self.fresh(listing)
        except (Unavailable, Internal) as problem:
            self._host.log.warning("a revocation list was not made", ca=listing.ca_id, list=listing.shard, reason=problem.cause)

    async def _make(self, listing: Listing) -> Served:
        host, signing = self._host, listing.signing
        told = self._told_until(listing)
        before, entries = await host.db.read(_contents, listing.ca_id, listing.shard, told)
        now = host.clock.now()
        this_update = now - now % SECOND
        life = self._settings[listing.ca_id].crl_next_update_secs * SECOND
        meant = List(
            issuer=signing.subject,
            algorithm=signing.algorithm,
            key_identifier=authority_key_identifier(signing.certificate),
            number=max(before.number + 1, now // 1000),
            this_update=this_update,
            next_update=this_update + life,
            scope=listing.scope,
            entries=entries,
        )
        tbs = await host.blocking.run("lists", made, meant)
        await host.db.write(_record, listing, before, meant.number, sha256(tbs).digest())
        faults.point("ca.crl.recorded")
        signature = await signing.signer.sign(tbs, hash_alg=HASHES[signing.algorithm])
        faults.point("ca.crl.signed")
        whole = der.signed(tbs, signing.algorithm, signature)
        await host.blocking.run("lists", _verify, whole, signing)
        return Served(der=whole, number=meant.number, this_update=this_update, next_update=meant.next_update)

    def _told_until(self, listing: Listing) -> int:
        """What expired before this was on a list that was made afterwards (RFC 5280 s3.3), whatever the clock did."""
        return min(listing.served.this_update, self._host.clock.passed()) if listing.served else 0

    def _listing(self, ca_id: str, shard: int, signing: Signing) -> Listing:
        bases = self._bases[ca_id] or [self._pointers.of(ca_id, "crl")]
        scope = scope_of([self._pointers.list_url(base, shard) for base in bases], users=True)
        return Listing(ca_id, shard, signing, scope)

    def _opened(self, id: str) -> None:
        ca_id, _, shard = id.rpartition("/")
        if ca_id in self._signing:
            self._listings.setdefault((ca_id, int(shard)), self._listing(ca_id, int(shard), self._signing[ca_id]))

    def _add_root(self, tx: Tx, ca_id: str, kid: str) -> None:
        self._shards.add(tx, ca_id, OF_ROOT, kid, used=0)


def _verify(whole: bytes, signing: Signing) -> None:
    """Raises Internal when the signature is wrong. The library's own check writes the list again, and holds the interpreter meanwhile."""
    try:
        verify(signing.certificate.public_key(), signing.algorithm, der.children(whole)[0], x509.load_der_x509_crl(whole).signature)
    except InvalidSignature:
        raise Internal(cause=f"the signature of key {signing.signer.info.kid} under a revocation list is wrong") from None


@scan
def _contents(tx: Tx, ca_id: str, shard: int, told: int) -> tuple[Row, Sequence[Entry]]:
    state = tx.one(_STATE, ca_id=ca_id, shard=shard)
    assert state is not None, "a list has its row"
    entries: Sequence[Any] = tx.all(_ENTRIES, ca_id=ca_id, shard=shard, told=told)
    return state, entries


def _record(tx: Tx, listing: Listing, before: Row, number: int, digest: bytes) -> None:
    """The number is used from now on, whatever becomes of the list."""
    counted = {"number": number, "made_revision": before.revision, "before": before.number}
    if not tx.count(_NEXT, the_ca=listing.ca_id, the_shard=listing.shard, **counted):
        raise Refuse(Unavailable("the revocation list was made by another process; try again"))
    tx.run(_RECORD, ca_id=listing.ca_id, shard=listing.shard, number=number, digest=digest, made_at=tx.now)


def _behind(tx: Tx) -> set[tuple[str, int]]:
    return {(row.ca_id, row.shard) for row in tx.all(_BEHIND)}


def _keep_bases(tx: Tx, ca_id: str, bases: Sequence[str]) -> list[str]:
    """All that were ever said, those of now first."""
    for base in bases:
        tx.run(_KEEP_BASE, ca_id=ca_id, base=base)
    return list(dict.fromkeys([*bases, *(row.base for row in tx.all(_BASES, ca_id=ca_id))]))


def _drop_old(tx: Tx, ca_id: str, shard: int, passed: int) -> int:
    rows = tx.all(_OLD_NUMBERS, ca_id=ca_id, shard=shard, passed=passed)
    if rows:
        tx.run(_DROP_NUMBERS, ca_id=ca_id, shard=shard, last=rows[-1].number)
    return len(rows)


@scan
def _drop_told(tx: Tx, ca_id: str, shard: int, told: int) -> int:
    rows = tx.all(_TOLD, ca_id=ca_id, shard=shard, told=told)
    for row in rows:
        tx.run(_DROP_TOLD, ca_id=ca_id, shard=shard, serial=row.serial)
    return len(rows)
