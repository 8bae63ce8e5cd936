"""The resources of RFC 8555 under /acme/."""

from collections.abc import Callable, Iterator
from typing import Any

from greatseal.api.http import Call, Jws, Owner, Reply, Route
from greatseal.api.lists import next_link, page_of
from greatseal.api.nodes import owner_of_path
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal_acme.accounts import Account, AccountUpdate
from greatseal_acme.authorizations import StoredChallenge
from greatseal_acme.challenges import Answer
from greatseal_acme.new_authz import NewAuthz
from greatseal_acme.orders import NewOrder, Order
from greatseal_acme.protocol.jws import AccountCaller, AcmeCaller
from greatseal_acme.protocol.objects import not_found, reply
from greatseal_acme.protocol.urls import Urls
from greatseal_acme.revocation import RevokeCert
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
        self._paths = acme.paths

    def routes(self) -> list[Route]:
        """Of the default CA, and below its id those of each."""
        return [*self._below("/acme"), *self._below("/acme/{ca_id}")]

    def _below(self, root: str) -> Iterator[Route]:
        by_id, by_authz = owner_of_path(self._host, "id"), owner_of_path(self._host, "authorization")
        post, get = _posting(root), _getting(root)
        yield get("directory", self.directory, "The directory (RFC 8555 s7.1.1).")
        yield post("directory", self.directory_as_get, "The directory by POST-as-GET.")
        yield get("new-nonce", self.new_nonce_head, "A fresh nonce (s7.2).", method="HEAD")
        yield get("new-nonce", self.new_nonce, "A fresh nonce without body (s7.2).")
        yield post("new-nonce", self.new_nonce_as_get, "A fresh nonce by POST-as-GET.")
        yield post("new-account", self.new_account, "Make or find the account of a key (s7.3).", Jws("jwk"))
        yield post("account/{id}", self.account, "Read, update or deactivate the account (s7.3.2, s7.3.6).")
        yield post("account/{id}/orders", self.account_orders, "The orders of the account, by pages (s7.1.2.1).")
        yield post("key-change", self.key_change, "Put the account under a new key (s7.3.5).")
        yield post("revoke-cert", self.revoke_cert, "Revoke a certificate (s7.6).", Jws("either"))
        yield post("new-order", self.new_order, "Order a certificate (s7.4).")
        yield post("new-authz", self.new_authz, "Prove an identifier before it is ordered (s7.4.1, RFC 9444).")
        yield post("order/{id}", self.order, "Read an order (s7.1.3).", owner=by_id)
        yield post("order/{id}/finalize", self.finalize, "Finalize a ready order with a CSR (s7.4).", owner=by_id)
        yield post("authz/{id}", self.authorization, "Read or deactivate an authorization (s7.5, s7.5.2).", owner=by_id)
        yield post("chall/{authorization}/{type}", self.challenge, "Read or answer a challenge (s7.5.1).", owner=by_authz)
        yield get("cert/{id}", self.certificate, "Download a certificate with its chain.", owner=by_id)
        yield get("renewal-info/{certificate}", self.renewal_info, "When a certificate should be renewed (RFC 9773).")
        yield post("cert/{id}", self.certificate_as_get, "Download a certificate with its chain (s7.4.2).", owner=by_id)
        yield get("cert/{id}/{alternate}", self.certificate, "Download an alternate of a certificate.", owner=by_id)
        yield post("cert/{id}/{alternate}", self.certificate_as_get, "Download an alternate of a certificate (s7.4.2).", owner=by_id)

    async def directory(self, call: Call) -> Reply:
        return reply(self._acme.directory(self._paths.of(call.path)))

    async def directory_as_get(self, call: Call) -> Reply:
        reading(call)
        return reply(self._acme.directory(self._paths.of(call.path)))

    async def new_nonce(self, call: Call) -> Reply:
        return self._nonce(call, 204)

    async def new_nonce_head(self, call: Call) -> Reply:
        return self._nonce(call, 200)

    async def new_nonce_as_get(self, call: Call) -> Reply:
        reading(call)
        return Reply(status=204, headers=(NO_STORE,))

    async def new_account(self, call: Call) -> Reply:
        caller = call.caller_as(AcmeCaller)
        account, made = await self._acme.accounts.ask(await call.body(dict[str, Any]), caller.key, self._paths.of(call.path))
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
        answer = reply({"orders": [self._paths.of_ca(ca_id).order(id) for id, ca_id in found.orders]})
        if found.next is None:
            return answer
        return answer.with_headers(next_link(call, self._host.base_url, limit=str(page.limit), after=found.next))

    async def key_change(self, call: Call) -> Reply:
        return self._account_reply(await self._acme.key_changes.change(call.caller_as(AccountCaller), call.url))

    async def revoke_cert(self, call: Call) -> Reply:
        await self._acme.revocations.revoke(call.caller_as(AcmeCaller), await call.body(RevokeCert), self._paths.of(call.path).ca_id)
        return Reply()

    async def new_order(self, call: Call) -> Reply:
        caller = call.caller_as(AccountCaller)
        self._acme.accounts.check_terms(caller.account)
        urls = self._paths.of(call.path)
        return _order_reply(await self._acme.orders.make(await call.body(NewOrder), caller.view, urls.ca_id), urls, status=201)

    async def order(self, call: Call) -> Reply:
        caller = reading(call)
        urls = self._paths.of(call.path)
        return _order_reply(await self._acme.orders.get(call.path["id"], caller.view, urls.ca_id), urls)

    async def finalize(self, call: Call) -> Reply:
        caller = call.caller_as(AccountCaller)
        urls, payload = self._paths.of(call.path), await call.body(dict[str, Any])
        return _order_reply(await self._acme.finalizations.finalize(call.path["id"], payload, caller.account, urls.ca_id), urls)

    async def authorization(self, call: Call) -> Reply:
        caller = call.caller_as(AccountCaller)
        parts, urls = self._acme.authorizations, self._paths.of(call.path)
        if not caller.payload:
            found = await parts.get(call.path["id"], caller.view, urls.ca_id)
        elif await call.body(dict[str, Any]) == {"status": "deactivated"}:
            found = await parts.deactivate(call.path["id"], caller.view, urls.ca_id)
        else:
            raise BadRequest('an authorization can be read (empty payload) or deactivated ({"status": "deactivated"})')
        answer = reply(parts.members(found, urls))
        return answer.with_headers(RETRY_AFTER) if found.status == "pending" else answer

    async def new_authz(self, call: Call) -> Reply:
        caller, urls = call.caller_as(AccountCaller), self._paths.of(call.path)
        self._acme.accounts.check_terms(caller.account)
        found, made = await self._acme.new_authorizations.ask(await call.body(NewAuthz), caller.view, urls.ca_id)
        location = ("Location", urls.authorization(found.id))
        return reply(self._acme.authorizations.members(found, urls), location, status=201 if made else 200)

    async def challenge(self, call: Call) -> Reply:
        caller = call.caller_as(AccountCaller)
        authorization, type, urls = call.path["authorization"], call.path["type"], self._paths.of(call.path)
        if not caller.payload:
            return self._challenge_reply(await self._acme.challenges.get(authorization, type, caller.view, urls.ca_id), urls)
        payload = await call.body(dict[str, Any])
        answer = Answer(authorization_id=authorization, type=type, account_id=caller.view.id, ca_id=urls.ca_id, payload=payload)
        return self._challenge_reply(await self._acme.challenges.answer(answer, caller.view), urls)

    async def certificate(self, call: Call) -> Reply:
        urls = self._paths.of(call.path)
        return (await self._acme.certificates.of_anybody(call, urls)).with_headers(urls.index_link)

    async def certificate_as_get(self, call: Call) -> Reply:
        caller = reading(call)
        return await self._acme.certificates.of_account(call, caller.view, self._paths.of(call.path))

    async def renewal_info(self, call: Call) -> Reply:
        urls = self._paths.of(call.path)
        return (await self._acme.renewal_info.show(call.path["certificate"], urls.ca_id, call.remote)).with_headers(urls.index_link)

    def _nonce(self, call: Call, status: int) -> Reply:
        index = self._paths.of(call.path).index_link
        return Reply(status=status, headers=(("Replay-Nonce", self._acme.nonces.issue()), index, NO_STORE))

    def _account_reply(self, account: Account, status: int = 200) -> Reply:
        return reply(account.members(), ("Location", account.view.url), status=status)

    def _challenge_reply(self, stored: StoredChallenge, urls: Urls) -> Reply:
        members = self._acme.authorizations.challenge_members(stored, urls)
        if members is None:
            raise not_found()
        up = ("Link", f'<{urls.authorization(stored.challenge.authorization_id)}>;rel="up"')
        answer = reply(members, up)
        return answer.with_headers(RETRY_AFTER) if stored.challenge.status == "processing" else answer


def _order_reply(order: Order, urls: Urls, status: int = 200) -> Reply:
    answer = reply(order.members(urls), ("Location", urls.order(order.id)), status=status)
    return answer.with_headers(RETRY_AFTER) if order.status == "processing" else answer


def reading(call: Call) -> AccountCaller:
    """The caller of a resource that can only be read: POST-as-GET, with the empty payload (RFC 8555 s6.3)."""
    caller = call.caller_as(AccountCaller)
    if caller.payload:
        raise BadRequest("this resource is read by POST-as-GET, whose payload is the empty string")
    return caller


def _posting(root: str) -> Callable[..., Route]:
    """Routes of signed requests below a path."""

    def post(path: str, handler: Any, summary: str, auth: Jws = Jws("kid"), owner: Owner | None = None) -> Route:  # noqa: B008  # a frozen value
        whole = f"{root}/{path}"
        return Route("POST", whole, handler, style="acme", cors=True, auth=auth, content_types=_JOSE, summary=summary, owner=owner)

    return post


def _getting(root: str) -> Callable[..., Route]:
    """Routes for anybody below a path."""

    def get(path: str, handler: Any, summary: str, method: str = "GET", owner: Owner | None = None) -> Route:
        return Route(method, f"{root}/{path}", handler, style="acme", cors=True, summary=summary, owner=owner)

    return get
