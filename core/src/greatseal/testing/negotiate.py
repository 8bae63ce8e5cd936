"""NEGOTIATE and TICKETS for unit tests."""

from collections.abc import Mapping, Sequence

from greatseal.api.declarations import Secret
from greatseal.api.http import Call
from greatseal.api.identity import Continue
from greatseal.api.kerberos import Absent, Accepted, NegotiateRefused, NotConfigured, PasswordVerdict, Ready, Unusable
from greatseal.api.problems import PayloadTooLarge, Unavailable

__all__ = ["FakeNegotiator", "FakeTickets"]

MAX_TOKEN = 48 * 1024


class FakeNegotiator:
    """NEGOTIATE (:class:`greatseal.api.kerberos.Negotiator`) without Kerberos: a token is the name of a principal.

    Those in ``legs`` take two legs on one connection: the first answers with the token ``more``, the second brings it back.
    ``indicators`` are those of every ticket. A test sets ``state``.
    """

    def __init__(self, *principals: str, legs: Sequence[str] = (), indicators: tuple[str, ...] = ()) -> None:
        self.principals = frozenset((*principals, *legs))
        self.legs = frozenset(legs)
        self.indicators = indicators
        self.state: Ready | NotConfigured | Unusable = Ready()

    async def accept(self, call: Call) -> Accepted | Continue | Absent:
        """As the contract says; the half-open context is the principal."""
        scheme, _, token = call.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "negotiate":
            return Absent()
        if not isinstance(self.state, Ready):
            raise Unavailable("Kerberos sign-in cannot be used now")
        if len(token) > MAX_TOKEN:
            raise PayloadTooLarge("the token is too long")
        half_open = call.connection.state.pop("negotiate", None)
        principal = half_open if token == "more" and half_open is not None else token  # noqa: S105
        if principal not in self.principals:
            raise NegotiateRefused("the token does not authenticate")
        if principal in self.legs and half_open is None:
            if call.connection.trusted_proxy:
                return Continue(headers=(("WWW-Authenticate", "Negotiate"),))
            call.connection.state["negotiate"] = principal
            return Continue(headers=(("WWW-Authenticate", "Negotiate more"),))
        return Accepted(principal=principal, indicators=self.indicators, headers=(("WWW-Authenticate", "Negotiate done"),))


class FakeTickets:
    """TICKETS (:class:`greatseal.api.kerberos.Tickets`) without Kerberos: ``passwords`` are those of principals.

    ``verdicts`` are those of principals whose passwords do not matter. With ``down`` the KDC cannot be asked.
    """

    def __init__(self, passwords: Mapping[str, str] | None = None, verdicts: Mapping[str, PasswordVerdict] | None = None) -> None:
        self.passwords = dict(passwords or {})
        self.verdicts = dict(verdicts or {})
        self.down = False

    def credentials(self, service: str) -> object:  # noqa: ARG002  # the contract's parameter
        """Something that no library takes."""
        if self.down:
            raise Unavailable("the KDC cannot be asked now")
        return object()

    async def password(self, principal: str, password: Secret) -> PasswordVerdict:
        """As the contract says."""
        if self.down:
            raise Unavailable("the KDC cannot be asked now")
        if (verdict := self.verdicts.get(principal)) is not None:
            return verdict
        if principal not in self.passwords:
            return PasswordVerdict.UNKNOWN
        return PasswordVerdict.RIGHT if self.passwords[principal] == password.value else PasswordVerdict.WRONG
