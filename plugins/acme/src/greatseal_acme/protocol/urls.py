"""The URLs of ACME resources, always below the configured base URL, and the CA that a path is of."""

import re
from collections.abc import Mapping, Sequence

from greatseal.api.problems import NotFound

is_id = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII).fullmatch
"""Whether a text can be the id of anything here; only such text reaches the database."""


class Urls:
    """The URLs of one CA below one path.

    ``scope`` is the CA that its accounts belong to alone, empty where accounts are those of all CAs.
    """

    def __init__(self, root: str, ca_id: str, *, accounts: str, scope: str) -> None:
        self.ca_id = ca_id
        self.root = root
        self.scope = scope
        self.accounts = accounts
        self.directory = f"{root}/directory"
        self.new_nonce = f"{root}/new-nonce"
        self.new_account = f"{root}/new-account"
        self.new_order = f"{root}/new-order"
        self.new_authz = f"{root}/new-authz"
        self.key_change = f"{root}/key-change"
        self.revoke_cert = f"{root}/revoke-cert"
        self.renewal_info = f"{root}/renewal-info"
        self.index_link = ("Link", f'<{self.directory}>;rel="index"')

    def account_id(self, url: str) -> str | None:
        """The id in an account URL of the CA; None for any other URL."""
        id = url.removeprefix(self.accounts)
        return id if id != url and "/" not in id else None

    def order(self, id: str) -> str:
        return f"{self.root}/order/{id}"

    def finalize(self, id: str) -> str:
        return f"{self.root}/order/{id}/finalize"

    def authorization(self, id: str) -> str:
        return f"{self.root}/authz/{id}"

    def challenge(self, authorization_id: str, type: str) -> str:
        return f"{self.root}/chall/{authorization_id}/{type}"

    def certificate(self, id: str) -> str:
        return f"{self.root}/cert/{id}"


class Paths:
    """The paths of every CA: ``/acme/{ca_id}/...``, and ``/acme/...`` for the default one.

    The URL of an account is ``{base_url}/acme/account/{id}`` whatever the CA (CAA and dns-persist-01 name it), unless accounts are
    ``scoped`` to CAs: then it is below the path of its CA, for the default one the bare path.
    """

    def __init__(self, base_url: str, ca_ids: Sequence[str], default_id: str, *, scoped: bool) -> None:
        self._root = f"{base_url}/acme"
        self._default_id = default_id
        self._scoped = scoped
        self.default = self._urls(self._root, default_id)
        self._by_name: Mapping[str | None, Urls] = {None: self.default} | {id: self._urls(f"{self._root}/{id}", id) for id in ca_ids}

    def of(self, path: Mapping[str, str]) -> Urls:
        """Those of the CA in the path parameters of a call. Raises NotFound."""
        found = self._by_name.get(path.get("ca_id"))
        if found is None:
            raise NotFound("there is no such CA")
        return found

    def index_link(self, path: Mapping[str, str]) -> tuple[str, str]:
        """The header that names the directory, that of the default CA where there is no other."""
        return self._by_name.get(path.get("ca_id"), self.default).index_link

    def of_ca(self, ca_id: str) -> Urls:
        """Those of a CA that is named elsewhere; for one that is there no more, those of the default CA, where nothing of it is found."""
        return self.default if ca_id == self.default.ca_id else self._by_name.get(ca_id, self.default)

    def scope(self, ca_id: str) -> str:
        """The CA to which an account of that CA belongs alone, empty where accounts are those of all."""
        return ca_id if self._scoped else ""

    def account(self, id: str, scope: str) -> str:
        """The URL of an account."""
        return self._accounts(scope) + id

    def _urls(self, root: str, ca_id: str) -> Urls:
        scope = self.scope(ca_id)
        return Urls(root, ca_id, accounts=self._accounts(scope), scope=scope)

    def _accounts(self, scope: str) -> str:
        return f"{self._root}/account/" if scope in {"", self._default_id} else f"{self._root}/{scope}/account/"
