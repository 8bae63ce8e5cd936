"""The keys of `[admin]` that operators, their sessions and the alarm own."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from greatseal.principals import parse

MOST_PRINCIPAL = 255
Seconds = Annotated[int, msgspec.Meta(ge=10, le=86_400)]


class AdminSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[admin]: operators of the CA and their sessions."""

    session_ttl_secs: Seconds = 3600
    """After how long without a request the session of an operator ends."""
    session_lock_secs: Seconds = 900
    """After how long without a request it is locked: its operator signs in again."""
    max_failed_auth: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    """How many failed sign-ins one after the other lock an operator."""
    lockout_duration_secs: Seconds = 1800
    """How long that lock lasts; an administrator may end it before."""
    auth_rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 20
    """How many sign-ins an address may try in 300 s; 0: any number."""
    audit_alarm_threshold: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    """How many audit events security.violation within 300 s raise the alarm."""
    audit_alarm_action: Literal["syslog", "halt"] = "syslog"
    """What the alarm does: syslog writes a critical line to the log; halt also ends all issuing until an administrator allows it again."""
    bootstrap_cert_file: Path | None = None
    """PEM certificate of the first administrator, who is made of it while there is no operator."""
    bootstrap_principal: str | None = None
    """Kerberos principal of the first administrator, who may sign in with its ticket; beside a certificate, either is good."""

    def __post_init__(self) -> None:
        if self.session_lock_secs > self.session_ttl_secs:
            raise ValueError("session_lock_secs: longer than session_ttl_secs, so that no session would ever be locked; make it shorter")
        if self.bootstrap_principal is not None and (problem := principal_problem(self.bootstrap_principal)) is not None:
            raise ValueError(f"bootstrap_principal: {problem}")


def principal_problem(text: str) -> str | None:
    """What is wrong with the Kerberos principal of an operator, None for nothing."""
    try:
        parse(text)
    except ValueError as error:
        return f"it {error}; expected such as ada@EXAMPLE.ORG"
    return None if len(text) <= MOST_PRINCIPAL else f"at most {MOST_PRINCIPAL} characters"


class CaId(msgspec.Struct, frozen=True, kw_only=True):
    """[ca], what operators are tied to."""

    id: Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")] = "default"
    """The name of the CA in paths and profiles."""
