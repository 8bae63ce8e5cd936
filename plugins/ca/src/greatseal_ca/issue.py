"""The service that protocols in front of the CA use."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
from cryptography import x509

from greatseal.api.acme import Identifier
from greatseal.api.inventory import CertificateQuery
from greatseal.api.issuance import (
    Certificate,
    CertificateRequest,
    Draft,
    IdentifierType,
    IssuanceObserver,
    IssuanceRequest,
    Issued,
    Issuer,
    Prepared,
    Profile,
    SanInjector,
)
from greatseal.api.problems import BadRequest, NotFound, Unavailable
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host
from greatseal_ca.authorities import Authorities
from greatseal_ca.build import Composition, to_be_signed
from greatseal_ca.checks import compromised_key, refused_key
from greatseal_ca.constraints import Constraints
from greatseal_ca.csr import match, read_csr
from greatseal_ca.identifiers import Claim, Types, certified, general_names
from greatseal_ca.inventory import Inventory
from greatseal_ca.lint import check_returned, lint
from greatseal_ca.listing import BITE, Ending
from greatseal_ca.lists import Lists
from greatseal_ca.profiles import PLAIN, X509, Profiles
from greatseal_ca.revocation import is_compromised
from greatseal_ca.root import ROOT
from greatseal_ca.validity import Window

_UNBOUND = Constraints(())
"""What another issuer lets its certificates be, it says itself."""


class CertificateAuthority:
    """The service ISSUANCE (:class:`greatseal.api.issuance.Issuance`)."""

    def __init__(self, host: Host, profiles: Profiles, authorities: Authorities, inventory: Inventory, lists: Lists) -> None:
        self._host = host
        self._profiles = profiles
        self._authorities = authorities
        self._inventory = inventory
        self._lists = lists

    def profiles(self, ca_id: str | None = None) -> Mapping[str, Profile]:
        return self._profiles.of(self._ca(ca_id))

    def profile(self, requested: str | None, ca_id: str | None = None) -> Profile:
        return self._profiles.choose(requested, self._ca(ca_id))

    def check_validity(self, profile: Profile, not_before: int | None, not_after: int | None) -> None:
        window = self._window(self._issuer(profile.issue_as), profile)
        window.check(profile.validity_days, not_before, not_after, self._host.clock.now())

    def check_identifier(self, profile: Profile, identifier: Identifier) -> None:
        self._constraints(profile).check(general_names([identifier], self._types))

    def read_csr(self, der: bytes) -> CertificateRequest:
        return read_csr(der, self._types)

    match = staticmethod(match)

    async def compose(self, request: IssuanceRequest) -> Draft:
        composition = self.composition(request)
        content = composition.content(self._host.clock.now())
        tbs = to_be_signed(content, composition.frame)
        lint(tbs, composition)
        return Draft(
            id=self._host.handles.new_id(),
            request=request,
            issue_as=request.profile.issue_as,
            kid=composition.frame.kid,
            serial=composition.frame.serial,
            tbs=tbs,
            not_before=content.not_before,
            not_after=content.not_after,
            crl_shard=composition.frame.crl_shard,
        )

    def composition(self, request: IssuanceRequest) -> Composition:
        """What goes into the certificate. Raises a Problem for names or wishes that cannot be certified."""
        issuer, constraints = self._issuer(request.profile.issue_as), self._constraints(request.profile)
        window, frame = self._window(issuer, request.profile), issuer.frame(request)
        names, claims = self._certified(request, issuer)
        own = self._profiles.settings.get(request.profile.id, PLAIN)
        return Composition(
            request=request,
            own=own,
            names=names,
            claims=claims,
            called=() if names else tuple(one.common_name for one in claims),
            frame=frame,
            window=window,
            constraints=constraints,
        )

    def reserve(self, tx: Tx, draft: Draft) -> Prepared:
        issuer = self._issuer(draft.issue_as)
        if blocked := self._host.blocked_keys.find_in(tx, draft.request.csr.spki_sha256):
            raise Refuse(refused_key(blocked))
        if is_compromised(tx, draft.request.csr.spki_sha256):
            raise Refuse(compromised_key())
        prepared = self._inventory.reserve(tx, draft)
        issuer.prepare(tx, draft)
        return prepared

    async def issue(self, prepared: Prepared) -> Issued:
        issuer = self._issuer(prepared.issue_as)
        return check_returned(issuer, prepared, await issuer.issue(prepared), self._types)

    def record(self, tx: Tx, prepared: Prepared, issued: Issued) -> Certificate:
        certificate = self._inventory.record(tx, prepared, issued)
        for observer in self._observers:
            observer.issued(tx, certificate)
        return certificate

    def abandon(self, tx: Tx, prepared: Prepared) -> None:
        if self._inventory.give_up(tx, prepared):
            self._issuer(prepared.issue_as).abandoned(tx, prepared)

    def reserved(self, tx: Tx, id: str) -> Prepared | None:
        return self._inventory.reserved(tx, id)

    async def settle(self, prepared: Prepared) -> Issued | None:
        issuer = self._issuer(prepared.issue_as)
        issued = await issuer.settle(prepared)
        return None if issued is None else check_returned(issuer, prepared, issued, self._types)

    async def certificate(self, id: str) -> Certificate | None:
        return await self._host.db.read(self._inventory.find, id)

    async def certificates(self, query: CertificateQuery) -> Sequence[Certificate]:
        found: list[Certificate] = []
        following = query.before
        while len(found) < query.limit:
            rest = min(query.limit - len(found), BITE)
            some, following = await self.page(msgspec.structs.replace(query, limit=rest, before=following))
            found += some
            if following is None:
                break
        return found

    async def page(self, query: CertificateQuery) -> tuple[list[Certificate], str | None]:
        """Those of a query that a bounded look finds, newest first, and the id before which there may be more."""
        return await self._host.db.read(self._inventory.listed, query)

    async def ending(self, query: Ending) -> tuple[list[Certificate], str | None]:
        """Those that end soon and were not renewed, those that end first first, and after what there may be more."""
        return await self._host.db.read(self._inventory.ending, query)

    def find(self, tx: Tx, ca_id: str, serial: bytes, issue_as: str = X509) -> Certificate | None:
        return self._inventory.find_serial(tx, ca_id, serial, issue_as)

    def named(self, tx: Tx, key_identifier: bytes, serial: bytes) -> Certificate | None:
        return self._inventory.find_named(tx, key_identifier, serial)

    def identical(self, tx: Tx, ca_id: str, der: bytes) -> Certificate | None:
        return self._inventory.find_identical(tx, ca_id, der)

    def own_keys(self) -> Mapping[bytes, str]:
        return self._authorities.all_keys(self._host)

    def subscriber_of(self, tx: Tx, id: str) -> str | None:
        """The CA of the certificate of that id; "" for one of a CA itself, which its root signed, and which is no subscriber's."""
        found = self._inventory.issued_by(tx, id)
        return None if found is None else "" if found[1] == ROOT else found[0]

    def revoke(self, tx: Tx, id: str, reason: int | None, *, by: str) -> Certificate:
        certificate = self._inventory.revoke(tx, id, reason, by)
        for observer in self._observers:
            observer.revoked(tx, certificate, certificate.reason)
        return certificate

    async def publish(self, revoked: Sequence[Certificate]) -> None:
        await self._lists.publish(revoked)

    def _certified(self, request: IssuanceRequest, issuer: Issuer) -> tuple[tuple[x509.GeneralName, ...], tuple[Claim, ...]]:
        """All names of the certificate, and what stands beside them; that of a CA has neither."""
        if request.profile.path_length is None:
            injected = [name for injector in self._injectors for name in injector.names(request)]
            return certified(request.identifiers, self._types, injected)
        if not issuer.signs_cas:
            raise BadRequest(f"certificates of CAs are not issued as {issuer.issue_as!r}; ask for a profile of another issuer")
        return (), ()

    # Components are complete when something is issued.

    @cached_property
    def _types(self) -> Types:
        return self._host.components(IdentifierType)

    @cached_property
    def _injectors(self) -> Sequence[SanInjector]:
        return tuple(self._host.components(SanInjector).values())

    @cached_property
    def _issuers(self) -> Mapping[str, Issuer]:
        return self._host.components(Issuer)

    @cached_property
    def _observers(self) -> Sequence[IssuanceObserver]:
        return tuple(self._host.components(IssuanceObserver).values())

    def _window(self, issuer: Issuer, profile: Profile) -> Window:
        return Window(issuer.bounds(profile.ca_id), capped=profile.path_length is None and self._profiles.capped[profile.ca_id])

    def _constraints(self, profile: Profile) -> Constraints:
        return self._authorities.issuing[profile.ca_id].constraints if profile.issue_as == X509 else _UNBOUND

    def _ca(self, ca_id: str | None) -> str:
        if ca_id is not None and ca_id not in self._profiles.ca_ids:
            raise NotFound("there is no such CA")
        return ca_id or self._authorities.default_id

    def _issuer(self, issue_as: str) -> Issuer:
        issuer = self._issuers.get(issue_as)
        if issuer is None:  # verified at the start for every profile; an old reservation may ask for one that is gone
            raise Unavailable("the certificate cannot be issued now", cause=f"no enabled plugin issues {issue_as!r}")
        return issuer
