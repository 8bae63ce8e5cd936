"""Cross-origin calls (RFC 9700 s2.6): allowed where no cookie is read, so that a public client may run in a browser."""

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property

from greatseal.api.http import Call, Reply, Route, Style
from greatseal.api.problems import Problem
from greatseal_idp.proofs import Proofs

Handling = Callable[[Call], Awaitable[Reply]]
Pair = tuple[str, str]

ALLOW = ("Access-Control-Allow-Origin", "*")
_SECONDS = "7200"


class Cors:
    """What scripts of other origins may send and read. The lists are made at the first answer: then all bindings are known."""

    def __init__(self, proofs: Proofs) -> None:
        self._proofs = proofs

    @cached_property
    def shared(self) -> tuple[Pair, Pair]:
        """The headers of a reply that a script of any origin may read."""
        names = ("WWW-Authenticate", "Retry-After", *(name for one in self._proofs.bindings.values() for name in one.reply_headers))
        return ALLOW, ("Access-Control-Expose-Headers", ", ".join(dict.fromkeys(names)))

    def open_to_scripts(self, handler: Handling) -> Handling:
        """The handler, with refusals and replies that a script of any origin may read. Costs nothing where no Origin was sent."""

        async def handle(call: Call) -> Reply:
            if "Origin" not in call.headers:
                return await handler(call)
            try:
                reply = await handler(call)
            except Problem as problem:
                problem.headers.update(self.shared)
                raise
            return reply.with_headers(*self.shared)

        return handle

    def preflight(self, path: str, methods: Sequence[str], style: Style = "oauth") -> Route:
        """The answer to a browser that asks before it calls."""

        async def answer(_call: Call) -> Reply:
            names = ("Authorization", "Content-Type", *(name for one in self._proofs.bindings.values() for name in one.request_headers))
            return Reply(
                status=204,
                headers=(
                    ALLOW,
                    ("Access-Control-Allow-Methods", ", ".join(methods)),
                    ("Access-Control-Allow-Headers", ", ".join(dict.fromkeys(names))),
                    ("Access-Control-Max-Age", _SECONDS),
                ),
            )

        return Route("OPTIONS", path, answer, style=style, summary="What a script of another origin may send.")
