"""The authorization response (RFC 6749 s4.1.2, RFC 9207, OAuth 2.0 Multiple Response Types, Form Post Response Mode)."""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from greatseal.api.http import Call, Reply
from greatseal.api.problems import Problem, Unavailable
from greatseal.host import Host
from greatseal_idp.authorize.reader import Reader
from greatseal_idp.authorize.request import Addressee
from greatseal_idp.extensions import Extensions
from greatseal_idp.pages.render import NOTHING_POLICY, PROTECTED, Pages, form_sources

# RFC 6749 s4.1.2.1: error_description is %x20-21 / %x23-5B / %x5D-7E.
_NOT_DESCRIPTION = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")

SUBMIT = "document.forms[0].submit()"
"""Sends the form of a form_post response (OAuth 2.0 Form Post Response Mode)."""


class Responses:
    """Sends answers to clients. Every one carries ``iss``; an extension makes those of its response modes. What it refuses is raised."""

    def __init__(self, host: Host, pages: Pages, reader: Reader, extensions: Extensions) -> None:
        self._issuer = host.issuer
        self._log = host.log
        self._pages = pages
        self._reader = reader
        self._extensions = extensions

    async def code(self, call: Call, to: Addressee, code: str) -> Reply:
        """The code for the client."""
        return await self.send(call, to, {"code": code})

    async def refuse(self, call: Call, to: Addressee, problem: Problem) -> Reply:
        """The refusal for the client."""
        return await self.send(call, to, self.refusal(to, problem))

    def refusal(self, to: Addressee, problem: Problem) -> dict[str, str]:
        """The members of an error response (RFC 6749 s4.1.2.1). The log has the cause: the client does not learn it."""
        error = "temporarily_unavailable" if isinstance(problem, Unavailable) else problem.error
        if problem.cause:
            self._log.info("refused to the client", client_id=to.client_id, error=error, detail=problem.detail, cause=problem.cause)
        described = _NOT_DESCRIPTION.sub("?", problem.detail.replace('"', "'"))
        return {"error": error, "error_description": described} if described else {"error": error}

    async def told(self, to: Addressee, members: Mapping[str, str]) -> dict[str, object]:
        """The response for a program that sends the browser on by itself: ``form`` is to be posted where it is there."""
        whole = await self._whole(to, members)
        return {"redirect_to": self.url(to, whole), **({"form": whole} if to.response_mode == "form_post" else {})}

    def url(self, to: Addressee, whole: Mapping[str, str]) -> str:
        """The redirect URI with the response in it, an existing query kept; for form_post the bare one."""
        encoded = urlencode(whole, quote_via=quote)
        match to.response_mode:
            case "fragment":
                return f"{to.redirect_uri}#{encoded}"
            case "form_post":
                return to.redirect_uri
            case "query":
                separator = "" if to.redirect_uri.endswith(("?", "&")) else "&" if "?" in to.redirect_uri else "?"
                return f"{to.redirect_uri}{separator}{encoded}"

    async def send(self, call: Call, to: Addressee, members: Mapping[str, str]) -> Reply:
        """The response in the mode that the client asked for."""
        whole = await self._whole(to, members)
        if to.response_mode == "form_post":
            targets = form_sources(to.redirect_uri)
            return self._pages.page(call, "form_post.html", form_targets=targets, script=SUBMIT, target=to.redirect_uri, fields=whole)
        # 307 and 308 would send a password form on to the client (RFC 9700 s4.12).
        status = 303 if call.method == "POST" else 302
        return Reply(status=status, headers=(*PROTECTED, NOTHING_POLICY, ("Location", self.url(to, whole))))

    async def _whole(self, to: Addressee, members: Mapping[str, str]) -> Mapping[str, str]:
        state = {} if to.state is None else {"state": to.state}
        whole = {**members, **state, "iss": self._issuer}
        if to.mode is None:
            return whole
        return await self._extensions.answer(await self._reader.client_of(to), to.mode, whole)
