"""tkauth-01 (RFC 9447): a trusted authority says that the account may have the identifier."""

from collections.abc import Mapping

import msgspec

from greatseal.api.acme import VALID, Attempt, Challenge, ChallengeValidator, Unauthorized, Verdict
from greatseal.api.issuance import Finalization, FinalizeCheck
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refuse, Tx, operation
from greatseal.api.trust import NotVouched
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode
from greatseal.jose.foreign import LONGEST
from greatseal_tkauth_01.authorities import Atc, Authorities
from greatseal_tkauth_01.constraints import TYPE, read

USED, USED_BY = "tkauth", "tkauth_by"
"""Kinds of strikes: a token, and a token with the challenge that used it."""


class AuthorityToken(msgspec.Struct, frozen=True):
    """The token as the client sent it."""

    token: str


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A token that a challenge uses up. ``until`` is microseconds."""

    key: str
    challenge_id: str
    until: int


class Used(msgspec.Struct, frozen=True):
    """It is used by this challenge, now or before."""


class Tkauth01(ChallengeValidator):
    """The token is good once, for one challenge; what was proven with it is for one order."""

    type = "tkauth-01"
    identifier_types = frozenset({TYPE})
    kept_as = AuthorityToken
    reusable = False

    def __init__(self, host: Host, authorities: Authorities, token_authority: str | None) -> None:
        self._host = host
        self._authorities = authorities
        self._shown = {} if token_authority is None else {"token-authority": token_authority}
        self.use = operation("tkauth-01.use", self._owner)(self._use)

    def members(self, challenge: Challenge) -> dict[str, object]:
        return {"token": challenge.token, "tkauth-type": "atc", **self._shown}

    def accept(self, tx: Tx, challenge: Challenge, payload: Mapping[str, object]) -> AuthorityToken:  # noqa: ARG002
        token = payload.get("tkauth")
        if not isinstance(token, str) or not 0 < len(token) <= LONGEST:
            raise BadRequest(f"tkauth is missing, or no text of at most {LONGEST} characters; send the authority token (RFC 9447 s5)")
        return AuthorityToken(token)

    async def validate(self, attempt: Attempt) -> Verdict:
        kept: AuthorityToken = attempt.kept
        try:
            found = await self._authorities.read(kept.token)
        except NotVouched as refused:
            raise Unauthorized(f"the authority token is not good: {refused.cause}") from None
        _check(found.atc, attempt)
        await self._host.db.write(self.use, Use(key=found.key, challenge_id=attempt.challenge.id, until=found.until))
        return VALID

    def _owner(self, asked: Use) -> str:
        return self._host.handles.owner_of_key(f"{USED}:{asked.key}")

    def _use(self, tx: Tx, asked: Use) -> Used:
        """A validation that is repeated after a crash finds its own use; the mark of anybody else is undone with the refusal."""
        first = self._host.strikes.take_within(tx, USED, asked.key, asked.until)
        marked = self._host.strikes.take_within(tx, USED_BY, f"{asked.challenge_id}:{asked.key}", asked.until)
        if not first and marked:
            raise Refuse(Unauthorized("the authority token was used before"))
        return Used()


class ConstrainedNames(FinalizeCheck):
    """Beside claim constraints a certificate has no other names than those that they permit as ``dns``."""

    name = "claim-constraints"
    phase = "authorize"

    async def check(self, finalization: Finalization) -> None:
        ordered = [proven.identifier for proven in finalization.identifiers]
        permitted = [name for one in ordered if one.type == TYPE for name in read(b64url_decode(one.value)).permitted.get("dns", ())]
        if not any(one.type == TYPE for one in ordered):
            return
        if foreign := [one for one in ordered if one.type != TYPE and not (one.type == "dns" and one.value in permitted)]:
            listed = ", ".join(f"{one.type}:{one.value}" for one in foreign[:5])
            raise Unauthorized(f"the claim constraints of the order do not permit {listed} as dns")


def fingerprint(thumbprint: str) -> str:
    """How RFC 9447 s3 writes the key of an account: ``SHA256`` and its thumbprint in pairs of capital hexadecimal digits."""
    return f"SHA256 {b64url_decode(thumbprint).hex(':').upper()}"


def _check(atc: Atc, attempt: Attempt) -> None:
    identifier = attempt.identifier
    if atc.tktype != identifier.type:
        raise Unauthorized("the authority token is for another type of identifier (tktype)")
    if atc.tkvalue != identifier.value:
        raise Unauthorized("the authority token is for another identifier (tkvalue)")
    if atc.fingerprint != fingerprint(attempt.account.thumbprint):
        raise Unauthorized("the authority token is for the key of another account (fingerprint)")
    if atc.ca:
        raise Unauthorized("the authority token is for a CA certificate (ca), which is not issued to accounts")
