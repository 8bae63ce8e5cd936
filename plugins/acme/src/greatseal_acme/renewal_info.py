"""When certificates should be renewed (RFC 9773): a window for each, and the names by which clients ask for one."""

from collections.abc import Sequence

import msgspec
from cryptography import x509

from greatseal.api.acme import AccountView, Identifier, Unauthorized
from greatseal.api.http import Reply
from greatseal.api.issuance import Certificate, IdentifierType, Issuance, IssuanceObserver
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, NotFound, Problem, RateLimited
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal.net.addresses import source_of
from greatseal_acme.protocol.identifiers import identifiers_of
from greatseal_acme.protocol.objects import moment_text
from greatseal_acme.settings import AcmeServer

DAY = 86_400 * SECOND
HOUR = 3600 * SECOND
SHORT = 10 * DAY
"""A certificate that lives less than this is renewed from the middle of its life on, and its window ends a tenth of it before the end."""
LONGEST_NAME = 160
"""Characters of a certificate's name: a key identifier and a serial of at most 20 octets each take 57; some CAs have longer identifiers."""
KIND = "acme_renewal_info"
CACHED = 10_000
"""Certificates whose window is in memory, about 600 bytes each."""
UNKNOWN_PER_MINUTE = 100
"""Certificates not in memory and not here that one address may ask for: each is a look into the database."""
FRESH_SECONDS = 300
"""How long a cache on the way may keep an answer. A certificate that was revoked meanwhile is renewed so much later."""


class AlreadyReplaced(Problem):
    """Another order replaces the certificate (RFC 9773 s5)."""

    status, error, type = 409, "already_replaced", "alreadyReplaced"


class CertificateName(msgspec.Struct, frozen=True):
    """What RFC 9773 s4.1 calls a certificate by. ``serial`` is the DER content without sign byte."""

    key_identifier: bytes
    serial: bytes

    @classmethod
    def read(cls, text: str) -> "CertificateName":
        """Raises BadRequest for every other than the one spelling of a name."""
        refusal = BadRequest(
            "the name of a certificate is the key identifier of its issuer, a dot, and the content of its serial number in DER, "
            "both in base64url without padding (RFC 9773 s4.1)"
        )
        key, dot, number = text.partition(".")
        if not dot or len(text) > LONGEST_NAME:
            raise refusal
        try:
            key_identifier, serial = b64url_decode(key), b64url_decode(number)
        except ValueError:
            raise refusal from None
        unsigned = serial.removeprefix(b"\0")
        if not key_identifier or not unsigned or (unsigned[0] > 127) != (unsigned != serial):
            raise refusal  # empty, zero, negative, or with a byte too many
        return cls(key_identifier, unsigned)

    def __str__(self) -> str:
        sign = b"\0" if self.serial[0] > 127 else b""
        return f"{b64url_encode(self.key_identifier)}.{b64url_encode(sign + self.serial)}"


def name_of(certificate: Certificate) -> str | None:
    """How clients call it; None for one without DER, or without key identifier of its issuer."""
    if certificate.der is None or certificate.serial is None:
        return None
    try:
        extension = x509.load_der_x509_certificate(certificate.der).extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    except (x509.ExtensionNotFound, ValueError):
        return None
    identifier = extension.value.key_identifier
    return None if identifier is None else str(CertificateName(identifier, certificate.serial))


class Window(msgspec.Struct, frozen=True):
    """When to renew: from ``start`` to ``end``, which is at least a second later. Microseconds, on whole seconds."""

    start: int
    end: int


def window_of(certificate: Certificate) -> Window:
    """From two thirds of the lifetime to a day before its end; of one that was revoked, in the past."""
    if certificate.revoked_at is not None:
        end = _whole(certificate.revoked_at)
        return Window(end - HOUR, end)
    begin, lifetime = certificate.not_before, certificate.not_after - certificate.not_before
    start = begin + (lifetime // 2 if lifetime < SHORT else lifetime * 2 // 3)
    end = certificate.not_after - min(DAY, lifetime // 10)
    return Window(_whole(start), max(_whole(end), _whole(start) + SECOND))


class Renewal(msgspec.Struct, frozen=True):
    """What is kept of a certificate: its CA, and the object to show."""

    ca_id: str
    shown: bytes


class RenewalInfo(IssuanceObserver):
    """The resource, for anybody, out of memory most of the time; and who notes that a certificate was revoked."""

    def __init__(self, host: Host, issuance: Issuance) -> None:
        settings = host.settings(AcmeServer)
        self._host = host
        self._issuance = issuance
        self._explanation = settings.ari_explanation_url
        self._headers = (("Retry-After", str(settings.ari_retry_after_secs)), ("Cache-Control", f"max-age={FRESH_SECONDS}"))
        self._cache = host.changes.cache(KIND, self._load, size=CACHED)

    async def show(self, text: str, ca_id: str, remote: str) -> Reply:
        """The answer to ``remote``. Raises BadRequest, NotFound for a certificate of another CA too, RateLimited."""
        found = self._cache.peek(text) or await self._look(text, remote)
        if found is None or found.ca_id != ca_id:
            raise NotFound("there is no such certificate here")
        return Reply(body=found.shown, content_type="application/json", headers=self._headers)

    def issued(self, tx: Tx, certificate: Certificate) -> None:
        """Nobody asked for it yet."""

    def revoked(self, tx: Tx, certificate: Certificate, reason: int | None) -> None:  # noqa: ARG002  # the contract's parameters
        if name := name_of(certificate):
            tx.changed(KIND, name)

    async def _look(self, text: str, remote: str) -> Renewal | None:
        CertificateName.read(text)
        source = source_of(remote)
        if wait := self._host.limits.hit("acme-renewal-info", source, UNKNOWN_PER_MINUTE, 60):
            raise RateLimited("this address asks for too many certificates that are not here", headers={"Retry-After": str(wait)})
        found = await self._cache.get(text)
        if found is not None:
            self._host.limits.undo("acme-renewal-info", source)
        return found

    def _load(self, tx: Tx, text: str) -> Renewal | None:
        name = CertificateName.read(text)
        certificate = self._issuance.named(tx, name.key_identifier, name.serial)
        if certificate is None:
            return None
        window = window_of(certificate)
        shown: dict[str, object] = {"suggestedWindow": {"start": moment_text(window.start), "end": moment_text(window.end)}}
        if self._explanation:
            shown["explanationURL"] = self._explanation
        return Renewal(certificate.ca_id, msgspec.json.encode(shown))


class Replacements:
    """Certificates that new orders replace (RFC 9773 s5)."""

    def __init__(self, host: Host, issuance: Issuance) -> None:
        self._host = host
        self._issuance = issuance

    async def check(self, text: str, account: AccountView, identifiers: Sequence[Identifier], ca_id: str) -> None:
        """Whether an order may replace the certificate of that name, where no other does.

        Raises BadRequest, Unauthorized for a certificate of another account.
        """
        try:
            name = CertificateName.read(text)
        except BadRequest as problem:
            raise BadRequest(f"replaces: {problem.detail}") from None
        certificate = await self._host.db.read(self._issuance.named, name.key_identifier, name.serial)
        if certificate is None or certificate.ca_id != ca_id:
            raise BadRequest("replaces: there is no such certificate here")
        if certificate.account_id != account.id:
            raise Unauthorized("replaces: the certificate was issued to another account")
        assert certificate.der is not None  # it has a name
        if set(identifiers).isdisjoint(identifiers_of(certificate.der, self._host.components(IdentifierType))):
            raise BadRequest("replaces: the certificate has no identifier of the order")


def _whole(moment: int) -> int:
    return moment - moment % SECOND
