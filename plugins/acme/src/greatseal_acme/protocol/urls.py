"""The URLs of ACME resources, always below the configured base URL."""

import re

is_id = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII).fullmatch
"""Whether a text can be the id of anything here; only such text reaches the database."""


class Urls:
    """``{base_url}/acme/...``."""

    def __init__(self, base_url: str) -> None:
        self.root = f"{base_url}/acme"
        self.directory = f"{self.root}/directory"
        self.new_nonce = f"{self.root}/new-nonce"
        self.new_account = f"{self.root}/new-account"
        self.new_order = f"{self.root}/new-order"
        self.key_change = f"{self.root}/key-change"
        self.index_link = ("Link", f'<{self.directory}>;rel="index"')
        self._accounts = f"{self.root}/account/"

    def account(self, id: str) -> str:
        return self._accounts + id

    def account_id(self, url: str) -> str | None:
        """The id in one of our account URLs; None for any other URL."""
        id = url.removeprefix(self._accounts)
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
