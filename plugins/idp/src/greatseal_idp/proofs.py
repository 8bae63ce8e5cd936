"""The keys that tokens are bound to (RFC 7800, RFC 8705, RFC 9449), by the bindings of every plugin."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

import msgspec

from greatseal.api.clients import Client, Proof, ProvenRequest
from greatseal.api.identity import Headers
from greatseal.api.problems import BadRequest, Problem, Unavailable
from greatseal.api.tokens import InvalidGrant, TokenBinding, UnauthorizedClient
from greatseal.host import Host
from greatseal_idp.brought import of_binding

BEARER = "Bearer"
PROMISED = {"dpop_bound_access_tokens": "jkt", "tls_client_certificate_bound_access_tokens": "x5t#S256"}
"""Members of a client that gets tokens bound to such a key alone, whatever plugins say (RFC 9449 s5.2, RFC 8705 s3.4)."""


class Proofs:
    """Asks every binding. With none enabled, nothing is asked and nothing costs."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @cached_property
    def bindings(self) -> Mapping[str, TokenBinding]:
        """By confirmation; complete from the lifespans on."""
        return dict(self._host.components(TokenBinding))

    async def prove(self, request: ProvenRequest) -> ProvenRequest:
        """The request with the keys that it proves. Raises what a binding refuses, and BadRequest for two keys of one token."""
        found: list[Proof] = []
        try:
            for binding in self.bindings.values():
                proof = await binding.prove(request) if binding.concerns(request) else None
                if proof is not None:
                    found.append(self._own(binding, proof))
            if len(found) > 1 and sum(proof.access for proof in found) > 1:
                raise BadRequest("the request proves two keys, and an access token is bound to one; send one proof (RFC 7800 s3.1)")
        except Problem as problem:
            _tell(problem, found)
            raise
        if not found:
            return request
        return msgspec.structs.replace(
            request,
            proofs=tuple(found),
            proven={proof.confirmation: proof.value for proof in found},
            cnf={proof.confirmation: proof.value for proof in found if proof.access} or None,
            bound={proof.confirmation: proof.value for proof in found if proof.refresh},
        )

    def require(self, request: ProvenRequest) -> None:
        """Raises why the client may not go without a key that it did not prove."""
        client, proven = request.client, request.proven
        for confirmation, binding in self.bindings.items():
            if confirmation not in proven and (problem := self._missing(binding, client)) is not None:
                raise problem
        for name, confirmation in PROMISED.items():
            if client.more.get(name) is True and confirmation not in (request.cnf or ()):
                raise UnauthorizedClient(
                    f"{name}: this client gets bound tokens alone, and its key was not proven (RFC 9449 s5.2, RFC 8705 s3.4)",
                    cause=self._silent(confirmation),
                )

    def require_bound(self, request: ProvenRequest, bound: Mapping[str, str]) -> None:
        """Raises InvalidGrant unless a refresh proves the keys of its family, Unavailable for one that nobody can prove any more."""
        for confirmation, value in bound.items():
            if confirmation not in self.bindings:
                # Not invalid_grant: the client would throw its token away.
                raise Unavailable("the key of this refresh token cannot be checked now", cause=f"no enabled plugin binds to {confirmation}")
            if request.proven.get(confirmation) != value:
                raise InvalidGrant("the refresh token is bound to another key (RFC 9449 s5, RFC 8705 s4)")

    def required(self, client: Client) -> list[str]:
        """The confirmations without which the client gets no token."""
        return [confirmation for confirmation, binding in self.bindings.items() if self._missing(binding, client) is not None]

    def scheme_of(self, cnf: Mapping[str, str] | None) -> str:
        """The ``token_type`` of a token with this ``cnf``."""
        for confirmation in cnf or ():
            if binding := self.bindings.get(confirmation):
                return binding.scheme
        return BEARER

    def _own(self, binding: TokenBinding, proof: Proof) -> Proof:
        if proof.confirmation != binding.confirmation:
            who = of_binding(self._host, binding.confirmation)
            raise TypeError(f"{who} proved {proof.confirmation!r}; prove returns a Proof of its own confirmation, or None")
        return proof

    def _missing(self, binding: TokenBinding, client: Client) -> Problem | None:
        problem = binding.missing(client)
        if problem is None or isinstance(problem, Problem):
            return problem
        raise TypeError(f"{of_binding(self._host, binding.confirmation)}: missing returned {problem!r}; it returns a Problem or None")

    def _silent(self, confirmation: str) -> str:
        """For the operator: who had to refuse and did not."""
        if confirmation not in self.bindings:
            return f"no enabled plugin binds to {confirmation}"
        return f"{of_binding(self._host, confirmation)} gave neither a proof nor, from missing, a refusal; correct the plugin"


@contextmanager
def told(request: ProvenRequest) -> Iterator[None]:
    """The headers of the proofs go out with a refusal that comes after them: a device that polls must learn the next nonce."""
    try:
        yield
    except Problem as problem:
        _tell(problem, request.proofs)
        raise


def headers_of(request: ProvenRequest) -> Headers:
    """What goes out with the reply because of the proofs."""
    return tuple(pair for proof in request.proofs for pair in proof.headers)


def _tell(problem: Problem, proofs: Iterable[Proof]) -> None:
    for proof in proofs:
        for name, value in proof.headers:
            problem.headers.setdefault(name, value)
