"""One leg of an exchange, in a thread: the low-level calls, since the classes of python-gssapi keep back errors that came with a token."""

from typing import Any

import gssapi
import msgspec
from gssapi import raw
from gssapi.raw.exceptions import BadChannelBindingsError, BadMechanismError
from gssapi.raw.misc import GSSError

KERBEROS = gssapi.MechType.kerberos
SPNEGO = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")
INDICATORS = b"auth-indicators"
LONGEST_REASON = 300
"""Characters of what the library says: it quotes names of the token, which may be as long as that."""


class Leg(msgspec.Struct, frozen=True, kw_only=True):
    """What an accepted leg gives: a token for the client, and either who it is or the context that the next leg needs."""

    token: bytes
    principal: str | None = None
    indicators: tuple[str, ...] = ()
    context: Any = None


def accept(credential: raw.Creds, token: bytes, binding: bytes | None, context: Any = None) -> Leg:
    """Take a leg. Raises ValueError with the reason, for the operator alone, for a token that does not authenticate."""
    bindings = None if binding is None else raw.ChannelBindings(application_data=binding)
    try:
        taken = raw.accept_sec_context(token, acceptor_creds=credential, context=context, channel_bindings=bindings)
        if taken.more_steps:
            # The name is known already, and nothing protects yet what the client offered first (RFC 4178 s5).
            return Leg(token=taken.token or b"", context=taken.context)
        if taken.mech != KERBEROS:
            raise ValueError(f"the mechanism is {taken.mech.dotted_form}, and only Kerberos is accepted")
        if int(raw.RequirementFlag.anonymity) & int(taken.flags):
            raise ValueError("the ticket is anonymous")
        name = gssapi.Name(taken.initiator_name)
        return Leg(token=taken.token or b"", principal=str(name), indicators=_indicators(name))
    except GSSError as error:
        raise ValueError(reason(error)) from error


def reason(error: GSSError) -> str:
    """What the library says, without codes, and what most often causes it."""
    said = [text.strip() for code, is_major in ((error.maj_code, True), (error.min_code, False)) for text in _texts(error, code, is_major)]
    match error:
        case BadChannelBindingsError():
            said.append("the client sees the TLS certificate of another server: does a proxy between have one of its own?")
        case BadMechanismError():
            said.append("the client offers no Kerberos, such as NTLM: it has no ticket for this host")
        case _:
            pass
    told = (text for text in said if text and text not in {"Unknown error", "Success"} and not text.startswith("Unspecified GSS"))
    return "; ".join(text[:LONGEST_REASON] for text in told)


def _texts(error: GSSError, code: int, is_major: bool) -> list[str]:
    try:
        return list(error.get_all_statuses(code, is_major))
    except (GSSError, UnicodeDecodeError):
        return []


def _indicators(name: gssapi.Name) -> tuple[str, ...]:
    """How the client got its first ticket, as far as the KDC says."""
    try:
        found = name.attributes[INDICATORS] if name.attributes is not None else None
    except (GSSError, KeyError):  # the ticket has none
        return ()
    if found is None or not found.authenticated:
        return ()
    return tuple(sorted(value.decode("utf-8", "replace") for value in found.values))
