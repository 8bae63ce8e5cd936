"""A trusted issuer of the configuration."""

from collections.abc import Sequence

from greatseal.api.directory import Directories
from greatseal.api.trust import ForeignToken, NotVouched, TrustedIssuer, Vouched
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.foreign import authenticated_at, check_claims, signed_by, text_of
from greatseal.jose.keysets import VerificationKey, named, read_key_set
from greatseal.net import RemoteKeys
from greatseal_jwt_bearer.settings import IssuerTable
from greatseal_jwt_bearer.subjects import person_of, workload_of


class ConfiguredIssuer(TrustedIssuer):
    """What `[[jwt_bearer.issuers]]` says of it, and nothing that its tokens say of themselves."""

    def __init__(self, table: IssuerTable, host: Host, keys: RemoteKeys, directories: Directories) -> None:
        self.name = table.issuer  # type: ignore[misc]  # one class, and a component for each issuer
        self._table = table
        self._host = host
        self._remote = keys
        self._inline = () if table.jwks is None else read_key_set(table.jwks)
        self._directories = directories

    def issued(self, token: ForeignToken) -> bool:
        return token.claims.get("iss") == self._table.issuer

    async def vouch(self, token: ForeignToken, audiences: frozenset[str]) -> Vouched:
        table, claims, now = self._table, token.claims, self._host.clock.now()
        used = signed_by(token, await self._keys(token))
        if await self._host.blocked_keys.find(spki_sha256(used.key)):
            raise NotVouched("the key of the issuer is blocked")
        expires = check_claims(claims, audiences | {*table.audiences}, now=now, longest=table.max_lifetime)
        for name, text in table.require.items():
            if claims.get(name) != text:
                raise NotVouched(f"{name} is not what the configuration requires")
        workload = table.subject == "workload"
        return Vouched(
            issuer=table.issuer,
            subject=text_of(claims, "sub"),
            kind="workload" if workload else "person",
            local=workload_of(table, claims) if workload else await person_of(table, claims, self._directories),
            expires_at=expires,
            authenticated_at=authenticated_at(claims, now=now),
            jti=text_of(claims, "jti") if "jti" in claims else None,
            claims=claims,
            scopes=None if table.scopes is None else frozenset(table.scopes),
            clients=None if table.clients is None else frozenset(table.clients),
        )

    async def _keys(self, token: ForeignToken) -> Sequence[VerificationKey]:
        """Those that may have signed it. Raises Unavailable."""
        if self._table.jwks_uri is None:
            return named(self._inline, token.header)
        return await self._remote.of(self._table.jwks_uri, token.header)
