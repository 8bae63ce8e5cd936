"""What is as much as a code."""

from greatseal.api.identity import Authenticated, SessionView


def is_enough(proven: Authenticated | SessionView) -> bool:
    """Two factors, a smart card, a key that verified its user; or another provider, whose business it is (RFC 8176)."""
    methods = set(proven.amr)
    return bool(methods & {"otp", "mfa", "sc"}) or {"hwk", "user"} <= methods or proven.upstream is not None
