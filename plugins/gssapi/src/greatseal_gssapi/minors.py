"""What a KDC and libkrb5 answer, by number (RFC 4120 s7.5.9), and what to do then."""

from collections.abc import Mapping
from enum import IntEnum

from gssapi.raw.misc import GSSError

from greatseal_gssapi.exchange import reason

SEE_KDC = "see that a KDC of the realm runs, that krb5.conf or DNS names it, and that the firewall lets this machine ask it"


class Minor(IntEnum):
    """As libkrb5 numbers them: KRB5KDC_ERR_NONE is -1765328384."""

    NAME_EXPIRED = -1765328383
    UNKNOWN = -1765328378
    SERVICE_UNKNOWN = -1765328377
    REVOKED = -1765328366
    KEY_EXPIRED = -1765328361
    PREAUTH_FAILED = -1765328360
    BAD_INTEGRITY = -1765328353
    SKEW = -1765328347
    UNREACHABLE = -1765328228


OTHER_KEYS = "the KDC has other keys of the service than the keytab; export it again"
CURES: Mapping[int, str] = {
    Minor.UNKNOWN: "add the principal to the KDC, or export a keytab of one that it has",
    Minor.SERVICE_UNKNOWN: "the configuration has to name the server as the KDC does",
    Minor.PREAUTH_FAILED: OTHER_KEYS,
    Minor.BAD_INTEGRITY: OTHER_KEYS,
    Minor.SKEW: "set the clock of this machine right, for example by NTP",
    Minor.UNREACHABLE: SEE_KDC,
}


def told(error: GSSError) -> str:
    """What the library says, and what to do where that is known."""
    cure = CURES.get(minor(error))
    return f"{reason(error)}: {cure}" if cure else reason(error)


def minor(error: GSSError) -> int:
    """As libkrb5 means it: the binding has no sign."""
    return error.min_code - (1 << 32) if error.min_code >= 1 << 31 else error.min_code
