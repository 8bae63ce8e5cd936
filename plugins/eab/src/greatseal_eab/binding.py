"""The binding of a new account (RFC 8555 s7.3.4). The order of the checks is part of the contract: the first one that fails answers."""

from greatseal.api.acme import AccountBinding, Binding, BindingRequest, Unauthorized
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refuse, Tx
from greatseal.jose.compact import BadJws, Jws, b64url_decode
from greatseal_eab.jws import HASHES, is_by_key, is_for_key, read_binding
from greatseal_eab.keys import EabKey, EabKeys

MEMBER = "externalAccountBinding"


class ExternalAccountBinding(AccountBinding):
    """A MAC by a key that the operator gave to the client; the account gets what the key grants."""

    member = MEMBER

    def __init__(self, keys: EabKeys, *, required: bool) -> None:
        self._keys = keys
        self._required = required

    @property
    def required(self) -> bool:
        return self._required

    def owner(self, request: BindingRequest) -> str | None:
        try:
            kid, _ = read_binding(request.value)
        except BadJws:
            return None
        return self._keys.owner(kid)

    def bind(self, tx: Tx, request: BindingRequest) -> Binding:
        try:
            kid, jws = read_binding(request.value)
        except BadJws as error:
            raise Refuse(BadRequest(f"{MEMBER}: {error}")) from None
        found = self._unused(tx, kid)
        secret = self._secret(tx, kid)
        _check_header(jws, request)
        if not is_for_key(jws, request.thumbprint):
            raise _refused(kid, "its payload is not the public key that signs the request for the account")
        if not is_by_key(jws, secret):
            raise _forged(kid)
        self._keys.use_up(tx, kid)
        return Binding(echo=request.value, profile_grants=found.profile_grants, kerberos_principal=found.bound_principal)

    def _unused(self, tx: Tx, kid: str) -> EabKey:
        found = self._keys.find(tx, kid)
        if found is None:
            raise _refused(kid, "its kid is unknown here; ask the operator of this CA for a key")
        if found.used_at is not None:
            raise _refused(kid, "the key of its kid was used by another account; ask the operator of this CA for another one")
        return found

    def _secret(self, tx: Tx, kid: str) -> bytes:
        try:
            return b64url_decode(self._keys.secret(tx, kid))
        except ValueError:
            problem = BadRequest(f"{MEMBER}: the key of its kid cannot be read here; ask the operator of this CA for another one")
            raise Refuse(problem) from None


def _check_header(jws: Jws, request: BindingRequest) -> None:
    if jws.alg not in HASHES:
        raise Refuse(BadRequest(f"{MEMBER}: the alg of its protected header is none of {', '.join(HASHES)}"))
    if jws.header.get("url") != request.url:
        raise _refused(str(jws.header["kid"]), "the url of its protected header is not that of the request for the account")
    if "nonce" in jws.header:
        raise Refuse(BadRequest(f"{MEMBER}: its protected header has a nonce, which it must not have (RFC 8555 s7.3.4)"))


def _refused(kid: str, reason: str) -> Refuse:
    return Refuse(Unauthorized(f"{MEMBER}: {reason}", cause=f"EAB kid {kid}"))


def _forged(kid: str) -> Refuse:
    """The only refusal that is told to the audit log: whoever sent it knows a kid and not its key."""
    detail = "the EAB HMAC verification failed"
    events = [
        AuditEvent(event_type="eab.reject", service="ca", outcome="failure", sub=kid),
        AuditEvent(event_type="security.violation", service="ca", outcome="failure", sub=kid, detail=detail),
    ]
    return Refuse(Unauthorized(f"{MEMBER}: its MAC is not by the key of its kid", cause=f"EAB kid {kid}"), events)
