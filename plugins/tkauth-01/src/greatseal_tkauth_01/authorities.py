"""The authorities of the configuration, and what one of their tokens says (RFC 9447 s3)."""

from collections.abc import Mapping, Sequence

import msgspec

from greatseal.api.moments import SECOND
from greatseal.api.problems import Unavailable, Unreachable
from greatseal.api.trust import ForeignToken, NotVouched
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.foreign import LEEWAY, check_times, read, signed_by, text_of
from greatseal.jose.keysets import VerificationKey, named, read_key_set
from greatseal.net import RemoteKeys
from greatseal_tkauth_01.settings import AuthorityTable

IGNORED = ("x5u",)
"""Authorities of telephone numbers say where their certificate is (RFC 9448); their keys come from the configuration all the same."""


class Atc(msgspec.Struct, frozen=True):
    """The claim ``atc``: which identifier of which account the authority vouches for."""

    tktype: str
    tkvalue: str
    fingerprint: str
    ca: bool = False


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token that an authority signed and that has not expired. ``key`` names it; it may come again until ``until``, microseconds."""

    atc: Atc
    key: str
    until: int


class Authorities:
    """Those that are trusted."""

    def __init__(self, tables: Sequence[AuthorityTable], host: Host, remote: RemoteKeys) -> None:
        self._tables: Mapping[str, AuthorityTable] = {table.issuer: table for table in tables}
        self._inline = {table.issuer: read_key_set(table.jwks) for table in tables if table.jwks is not None}
        self._host = host
        self._remote = remote

    async def read(self, text: str) -> Token:
        """What the token says. Raises NotVouched for one that is not good, Unreachable when the keys cannot be had."""
        token = read(text, ignoring=IGNORED)
        issuer = token.claims.get("iss")
        table = self._tables.get(issuer) if isinstance(issuer, str) else None
        if table is None:
            raise NotVouched("its iss is none of the authorities that are trusted here")
        used = signed_by(token, await self._keys(table, token))
        if await self._host.blocked_keys.find(spki_sha256(used.key)):
            raise NotVouched("the key of the authority is blocked")
        expires = check_times(token.claims, now=self._host.clock.now(), longest=table.max_lifetime)
        key = f"{len(table.issuer)}:{table.issuer}:{text_of(token.claims, 'jti')}"
        return Token(atc=_atc(token), key=key, until=expires + LEEWAY * SECOND)

    async def _keys(self, table: AuthorityTable, token: ForeignToken) -> Sequence[VerificationKey]:
        if table.jwks_uri is None:
            return named(self._inline[table.issuer], token.header)
        try:
            return await self._remote.of(table.jwks_uri, token.header)
        except Unavailable as problem:
            raise Unreachable("the keys of the authority cannot be had now", cause=problem.cause) from None


def _atc(token: ForeignToken) -> Atc:
    try:
        return msgspec.convert(token.claims.get("atc"), Atc)
    except msgspec.ValidationError:
        raise NotVouched("atc is no object of tktype, tkvalue, fingerprint and ca") from None
