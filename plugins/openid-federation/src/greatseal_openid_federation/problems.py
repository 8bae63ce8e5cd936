"""Why a client of a federation is refused (OpenID Federation 1.0 s8.9). They are told where they arise; nobody is redirected (s12.1.3)."""

from greatseal.api.problems import BadRequest, NotFound


class InvalidTrustChain(BadRequest):
    """No trust chain of the client is valid."""

    error = "invalid_trust_chain"


class InvalidTrustAnchor(NotFound):
    """The superiors of the client lead to no trust anchor of this service."""

    error = "invalid_trust_anchor"


class InvalidMetadata(BadRequest):
    """The metadata of the client breaks a rule, or a policy of its federation."""

    error = "invalid_metadata"
