"""/admin/session/eab: an operator signs in with a MAC by an EAB key over a challenge."""

import secrets

import msgspec

from greatseal.api.acme import EabKeys
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.moments import SECOND, seconds
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refused, Tx
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode
from greatseal_ca_admin.admission import Admission, Began, refused
from greatseal_ca_admin.operators import by_eab_kid
from greatseal_ca_admin.proofs import NO_KEY
from greatseal_ca_admin.scheme import SESSION
from greatseal_ca_admin.sessions import Proof as Shown

PATH = f"{SESSION}/eab"
KIND = "opchal"
CHALLENGE_SECONDS = 60
MOST_KID = 255
_PROVES = Handler("there is no session yet: the MAC over a challenge proves the operator")
_ASKED = Handler("a challenge is for anybody")
_REFUSED = "no active operator has this EAB key, or the MAC is not by it"


class Challenge(msgspec.Struct, frozen=True):
    """What is sealed; ``until`` is microseconds."""

    id: str
    until: int


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the caller sends: ``mac`` is base64url of the HMAC-SHA-256 of :func:`message`."""

    kid: str
    challenge: str
    mac: str


class EabSignIn:
    """The routes, where EAB keys are."""

    def __init__(self, host: Host, admission: Admission, keys: EabKeys) -> None:
        self._host = host
        self._admission = admission
        self._keys = keys

    def routes(self) -> list[Route]:
        """Both."""
        return [
            Route("GET", PATH, self.challenge, "acme-admin", _ASKED, "admin", summary="A challenge to sign in with an EAB key"),
            Route("POST", PATH, self.begin, "acme-admin", _PROVES, "admin", summary="Sign in with an EAB key"),
        ]

    async def challenge(self, _call: Call) -> Reply:
        """Nothing is stored before it is used."""
        until = self._host.clock.now() + CHALLENGE_SECONDS * SECOND
        text = await self._host.envelopes.seal(KIND, Challenge(secrets.token_hex(16), until), seconds=CHALLENGE_SECONDS)
        shown = {"challenge": text, "url": self._url, "expires_at": seconds(until)}
        return Reply.json(shown, headers={"Cache-Control": "no-store"})

    async def begin(self, call: Call) -> Reply:
        """A challenge is good for one try. Whatever is wrong with key or MAC, a stranger hears the same."""
        self._admission.count(call)
        proof = await call.body(Proof)
        try:
            mac = b64url_decode(proof.mac)
        except ValueError:
            raise BadRequest("mac: expected base64url without padding") from None
        challenge = await self._host.envelopes.open(KIND, proof.challenge, Challenge)
        if challenge is None or not await self._host.strikes.take("operator_challenge", challenge.id, challenge.until):
            raise refused("the challenge is none, too old, or used; ask for another one")
        return self._admission.reply(await self._host.db.write(self._begin, proof, mac))

    @property
    def _url(self) -> str:
        return f"{self._host.base_url}{PATH}"

    def _begin(self, tx: Tx, proof: Proof, mac: bytes) -> Began | Refused:
        if not is_kid(proof.kid):
            return self._admission.admit(tx, None, Shown(), None, shown="an EAB kid that cannot be", refusal=_REFUSED)
        bound, key = by_eab_kid(tx, proof.kid), self._keys.find(tx, proof.kid)
        fault = None
        if key is None or bound is None or key.made_at != bound[1]:
            fault = NO_KEY
        elif not self._keys.verifies(tx, proof.kid, message(self._url, proof.kid, proof.challenge), mac):
            fault = "the MAC is not by the EAB key of the operator"
        shown = f"EAB key {proof.kid}{f' of {key.principal}' if key is not None and key.principal else ''}"
        stands_for = Shown(eab_kid=proof.kid, eab_made_at=None if key is None else key.made_at)
        return self._admission.admit(tx, None if bound is None else bound[0], stands_for, fault, shown=shown, refusal=_REFUSED)


def is_kid(text: str) -> bool:
    """Whether a key may have that id; then it is one line."""
    return 0 < len(text) <= MOST_KID and text.isprintable()


def message(url: str, kid: str, challenge: str) -> bytes:
    """What the MAC is over. It has line feeds, so it is never a JWS."""
    return f"greatseal operator sign-in\n{url}\n{kid}\n{challenge}".encode()
