"""Cross-origin calls (RFC 9700 s2.6): allowed where no cookie is read, so that a public client may run in a browser."""

from collections.abc import Awaitable, Callable, Sequence

from greatseal.api.http import Call, Reply, Route, Style
from greatseal.api.problems import Problem

Handling = Callable[[Call], Awaitable[Reply]]

ALLOW = ("Access-Control-Allow-Origin", "*")
EXPOSE = ("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After")
_SECONDS = "7200"


def open_to_scripts(handler: Handling) -> Handling:
    """The handler, with refusals and replies that a script of any origin may read. Costs nothing where no Origin was sent."""

    async def handle(call: Call) -> Reply:
        if "Origin" not in call.headers:
            return await handler(call)
        try:
            reply = await handler(call)
        except Problem as problem:
            problem.headers.update((ALLOW, EXPOSE))
            raise
        return reply.with_headers(ALLOW, EXPOSE)

    return handle


def preflight(path: str, methods: Sequence[str], style: Style = "oauth") -> Route:
    """The answer to a browser that asks before it calls."""
    reply = Reply(
        status=204,
        headers=(
            ALLOW,
            ("Access-Control-Allow-Methods", ", ".join(methods)),
            ("Access-Control-Allow-Headers", "Authorization, Content-Type"),
            ("Access-Control-Max-Age", _SECONDS),
        ),
    )

    async def answer(_call: Call) -> Reply:
        return reply

    return Route("OPTIONS", path, answer, style=style, summary="What a script of another origin may send.")
