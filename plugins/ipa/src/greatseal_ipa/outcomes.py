"""What a server says to a change (RFC 4511 appendix A)."""

from greatseal_ipa.library import Down, Outcome

MISSING, CONSTRAINT, ALREADY, NO_ENTRY, FORBIDDEN, UNWILLING, NOT_ALLOWED, THERE = 16, 19, 20, 32, 50, 53, 65, 68
"""noSuchAttribute, constraintViolation, attributeOrValueExists, noSuchObject, insufficientAccessRights, unwillingToPerform,
objectClassViolation, entryAlreadyExists"""
BUSY = frozenset({51, 52})
"""busy, unavailable"""
SETUP = "greatseal ipa setup says what is missing"


def heard(outcome: Outcome) -> Outcome:
    """The outcome. Raises Down where the server did not even look: another one may."""
    if outcome.code in BUSY:
        raise Down(f"{outcome.message} ({outcome.code})")
    return outcome


def refusal(outcome: Outcome, what: str) -> str:
    """For the log."""
    hint = f": {SETUP}" if outcome.code == FORBIDDEN else ""
    return f"the directory refuses {what}: {outcome.message} ({outcome.code}){hint}"
