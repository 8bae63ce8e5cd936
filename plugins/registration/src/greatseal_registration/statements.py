"""Software statements (RFC 7591 s2.3): what a trusted party says of a client, signed."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal.api.clients import InvalidClientMetadata
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal.jose.compact import BadJws, Jws, parse_compact
from greatseal.jose.strict import decode_object
from greatseal.net import RemoteKeys
from greatseal_registration.settings import StatementIssuer

LEEWAY = 60  # seconds the issuer's clock may be ahead
CLAIMS = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti"})
"""Claims of the statement itself; all others are members of the registration."""


class InvalidSoftwareStatement(BadRequest):
    """It cannot be read, its signature or its times are wrong (RFC 7591 s3.2.2)."""

    error = "invalid_software_statement"


class UnapprovedSoftwareStatement(BadRequest):
    """Nobody here trusts its issuer (RFC 7591 s3.2.2)."""

    error = "unapproved_software_statement"


class Statements:
    """Reads the statements of the trusted issuers. Their keys are where the configuration says, so on whatever network."""

    def __init__(self, host: Host, keys: RemoteKeys, issuers: Sequence[StatementIssuer], *, required: bool) -> None:
        self._host = host
        self._keys = keys
        self._issuers = {one.issuer: one.jwks_uri for one in issuers}
        self._required = required

    async def counted(self, sent: dict[str, Any]) -> dict[str, Any]:
        """A body with what its software statement says, which counts more. Where nobody is trusted, statements are ignored.

        At every change as at the registration: else a client would take back what was said of it. Raises InvalidClientMetadata for
        a missing one, and as :meth:`members`.
        """
        if not self._issuers:
            return sent
        if "software_statement" in sent:
            return {**sent, **await self.members(sent["software_statement"])}
        if self._required:
            raise InvalidClientMetadata("software_statement: expected one of an issuer that is trusted here (RFC 7591 s2.3)")
        return sent

    def repeated(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        """The statement as it came, for the answer (RFC 7591 s3.2.1)."""
        return {name: sent[name] for name in ("software_statement",) if self._issuers and name in sent}

    async def members(self, statement: object) -> dict[str, Any]:
        """What it says of the client. Raises the two above, Unavailable when the keys cannot be had now."""
        if not isinstance(statement, str):
            raise InvalidSoftwareStatement("software_statement: expected a signed JWT as text (RFC 7591 s2.3)")
        try:
            jws = parse_compact(statement)
            claims = decode_object(jws.payload)
        except (BadJws, ValueError) as error:
            raise InvalidSoftwareStatement("software_statement: expected a signed JWT (RFC 7515 s7.1)", cause=str(error)) from None
        issuer = claims.get("iss")
        jwks_uri = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if jwks_uri is None:
            raise UnapprovedSoftwareStatement("software_statement: its iss is none that is trusted here (RFC 7591 s2.3)")
        await self._check_signature(jws, jwks_uri)
        self._check_claims(claims)
        return {name: value for name, value in claims.items() if name not in CLAIMS}

    async def _check_signature(self, jws: Jws, jwks_uri: str) -> None:
        keys = await self._keys.of(jwks_uri, jws.header)
        if not any(key.signed(jws) for key in keys):
            raise InvalidSoftwareStatement("software_statement: no key of its issuer made the signature (RFC 7515 s5.2)")

    def _check_claims(self, claims: Mapping[str, Any]) -> None:
        now = self._host.clock.now() // 1_000_000
        expires = _moment(claims, "exp")
        if expires is not None and expires <= now:
            raise InvalidSoftwareStatement("software_statement: exp has passed (RFC 7519 s4.1.4)")
        for name in ("iat", "nbf"):
            moment = _moment(claims, name)
            if moment is not None and moment > now + LEEWAY:
                raise InvalidSoftwareStatement(f"software_statement: {name} lies in the future (RFC 7519 s4.1)")
        audience = claims.get("aud", self._host.issuer)
        if self._host.issuer not in (audience if isinstance(audience, list) else [audience]):
            raise InvalidSoftwareStatement("software_statement: aud is another one (RFC 7519 s4.1.3)")
        if not isinstance(claims.get("software_id"), str):  # or any JWT of the issuer would be one
            raise InvalidSoftwareStatement("software_statement: expected software_id (RFC 7591 s2.3)")


def _moment(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise InvalidSoftwareStatement(f"software_statement: {name} is no NumericDate (RFC 7519 s2)")
    return int(value)
