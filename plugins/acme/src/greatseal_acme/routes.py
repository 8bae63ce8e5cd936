"""The resources of RFC 8555 under /acme/."""

from typing import Any

from greatseal.api.http import Call, Jws, Owner, Reply, Route
from greatseal.api.lists import next_link, page_of
from greatseal.api.nodes import owner_of_path
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal_acme.accounts import Account, AccountUpdate
from greatseal_acme.authorizations import StoredChallenge
from greatseal_acme.challenges import Answer
from greatseal_acme.orders import NewOrder, Order
from greatseal_acme.protocol.jws import AccountCaller, AcmeCaller
from greatseal_acme.protocol.objects import not_found, reply
from greatseal_acme.service import Acme

NO_STORE = ("Cache-Control", "no-store")
RETRY_AFTER = ("Retry-After", "1")
"""Seconds after which an object that is processing is worth a look: a validation rarely takes longer."""
_JOSE = ("application/jose+json",)


class Handlers:
    """One method for each resource and method."""

    def __init__(self, host: Host, acme: Acme) -> None:
        self._host = host
        self._acme = acme
        self._urls = acme.urls

    def routes(self) -> list[Route]:
        by_id, by_authz = owner_of_path(self._host, "id"), owner_of_path(self._host, "authorization")
        return [
            Route("GET", "/acme/directory", self.directory, style="acme", cors=True, summary="The directory (RFC 8555 s7.1.1)."),
            _post("/acme/directory", self.directory_as_get, summary="The directory by POST-as-GET."),
            Route("HEAD", "/acme/new-nonce", self.new_nonce_head, style="acme", cors=True, summary="A fresh nonce (s7.2)."),
            Route("GET", "/acme/new-nonce", self.new_nonce, style="acme", cors=True, summary="A fresh nonce without body (s7.2)."),
            _post("/acme/new-nonce", self.new_nonce_as_get, summary="A fresh nonce by POST-as-GET."),
            _post("/acme/new-account", self.new_account, Jws("jwk"), summary="Make or find the account of a key (s7.3)."),
            _post("/acme/account/{id}", self.account, summary="Read, update or deactivate the account (s7.3.2, s7.3.6)."),
            _post("/acme/account/{id}/orders", self.account_orders, summary="The orders of the account, by pages (s7.1.2.1)."),
            _post("/acme/key-change", self.key_change, summary="Put the account under a new key (s7.3.5)."),
            _post("/acme/new-order", self.new_order, summary="Order a certificate (s7.4)."),
            _post("/acme/order/{id}", self.order, summary="Read an order (s7.1.3).", owner=by_id),
            _post("/acme/order/{id}/finalize", self.finalize, summary="Finalize a ready order with a CSR (s7.4).", owner=by_id),
            _post("/acme/authz/{id}", self.authorization, summary="Read or deactivate an authorization (s7.5, s7.5.2).", owner=by_id),
            _post("/acme/chall/{authorization}/{type}", self.challenge, summary="Read or answer a challenge (s7.5.1).", owner=by_authz),
            Route(
                "GET",
                "/acme/cert/{id}",
                self.certificate,
                style="acme",
                cors=True,
                summary="Download a certificate with its chain.",
                owner=by_id,
            ),
            _post("/acme/cert/{id}", self.certificate_as_get, summary="Download a certificate with its chain (s7.4.2).", owner=by_id),
        ]

    async def directory(self, _call: Call) -> Reply:
        return reply(self._acme.directory())

    async def directory_as_get(self, call: Call) -> Reply:
        reading(call)
        return reply(self._acme.directory())

    async def new_nonce(self, _call: Call) -> Reply:
        return self._nonce(204)

    async def new_nonce_head(self, _call: Call) -> Reply:
        return self._nonce(200)

    async def new_nonce_as_get(self, call: Call) -> Reply:
        reading(call)
        return Reply(status=204, headers=(NO_STORE,))

    async def new_account(self, call: Call) -> Reply:
        caller = call.caller_as(AcmeCaller)
        account, made = await self._acme.accounts.ask(await call.body(dict[str, Any]), caller.key)
        return self._account_reply(account, status=201 if made else 200).with_headers(*self._acme.accounts.terms.links)

    async def account(self, call: Call) -> Reply:
        caller = call.caller_as(AccountCaller)
        if call.path["id"] != caller.view.id:
            raise not_found()
        if not caller.payload:
            return self._account_reply(caller.account)
        return self._account_reply(await self._acme.accounts.change(caller.account, await call.body(AccountUpdate)))

    async def account_orders(self, call: Call) -> Reply:
        caller = reading(call)
        if call.path["id"] != caller.view.id:
            raise not_found()
        page = page_of(call)
        found = await self._acme.order_list.page(caller.view, page)
        answer = reply({"orders": [self._urls.order(id) for id in found.orders]})
        if found.next is None:
            return answer
        return answer.with_headers(next_link(call, self._host.base_url, limit=str(page.limit), after=found.next))

    async def key_change(self, call: Call) -> Reply:
        return self._account_reply(await self._acme.key_changes.change(call.caller_as(AccountCaller), call.url))

    async def new_order(self, call: Call) -> Reply:
        caller = call.caller_as(AccountCaller)
        self._acme.accounts.check_terms(caller.account)
        return self._order_reply(await self._acme.orders.make(await call.body(NewOrder), caller.view), status=201)

    async def order(self, call: Call) -> Reply:
        caller = reading(call)
        return self._order_reply(await self._acme.orders.get(call.path["id"], caller.view))

    async def finalize(self, call: Call) -> Reply:
        caller = call.caller_as(AccountCaller)
        payload = await call.body(dict[str, Any])
        return self._order_reply(await self._acme.finalizations.finalize(call.path["id"], payload, caller.account))

    async def authorization(self, call: Call) -> Reply:
        caller = call.caller_as(AccountCaller)
        parts = self._acme.authorizations
        if not caller.payload:
            found = await parts.get(call.path["id"], caller.view)
        elif await call.body(dict[str, Any]) == {"status": "deactivated"}:
            found = await parts.deactivate(call.path["id"], caller.view)
        else:
            raise BadRequest('an authorization can be read (empty payload) or deactivated ({"status": "deactivated"})')
        answer = reply(parts.members(found))
        return answer.with_headers(RETRY_AFTER) if found.status == "pending" else answer

    async def challenge(self, call: Call) -> Reply:
        caller = call.caller_as(AccountCaller)
        authorization, type = call.path["authorization"], call.path["type"]
        if not caller.payload:
            return self._challenge_reply(await self._acme.challenges.get(authorization, type, caller.view))
        payload = await call.body(dict[str, Any])
        answer = Answer(authorization_id=authorization, type=type, account_id=caller.view.id, payload=payload)
        return self._challenge_reply(await self._acme.challenges.answer(answer, caller.view))

    async def certificate(self, call: Call) -> Reply:
        return (await self._acme.certificates.of_anybody(call.path["id"])).with_headers(self._urls.index_link)

    async def certificate_as_get(self, call: Call) -> Reply:
        caller = reading(call)
        return await self._acme.certificates.of_account(call.path["id"], caller.view)

    def _nonce(self, status: int) -> Reply:
        return Reply(status=status, headers=(("Replay-Nonce", self._acme.nonces.issue()), self._urls.index_link, NO_STORE))

    def _account_reply(self, account: Account, status: int = 200) -> Reply:
        return reply(account.members(), ("Location", account.view.url), status=status)

    def _order_reply(self, order: Order, status: int = 200) -> Reply:
        answer = reply(order.members(self._urls), ("Location", self._urls.order(order.id)), status=status)
        return answer.with_headers(RETRY_AFTER) if order.status == "processing" else answer

    def _challenge_reply(self, stored: StoredChallenge) -> Reply:
        members = self._acme.authorizations.challenge_members(stored)
        if members is None:
            raise not_found()
        up = ("Link", f'<{self._urls.authorization(stored.challenge.authorization_id)}>;rel="up"')
        answer = reply(members, up)
        return answer.with_headers(RETRY_AFTER) if stored.challenge.status == "processing" else answer


def reading(call: Call) -> AccountCaller:
    """The caller of a resource that can only be read: POST-as-GET, with the empty payload (RFC 8555 s6.3)."""
    caller = call.caller_as(AccountCaller)
    if caller.payload:
        raise BadRequest("this resource is read by POST-as-GET, whose payload is the empty string")
    return caller


def _post(path: str, handler: Any, auth: Jws = Jws("kid"), *, summary: str, owner: Owner | None = None) -> Route:  # noqa: B008  # a frozen value
    return Route("POST", path, handler, style="acme", cors=True, auth=auth, content_types=_JOSE, summary=summary, owner=owner)
