"""Terms of service (RFC 8555 s7.3.3): an account agrees to those at one URL. When the URL changes, it agrees anew before its next order."""

from greatseal.api.acme import UserActionRequired


class Terms:
    """Those of `[server] terms_of_service_url`; ``url`` is None where there are none."""

    def __init__(self, url: str | None) -> None:
        self.url = url

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The header that shows them, where there are any."""
        return (("Link", f'<{self.url}>;rel="terms-of-service"'),) if self.url else ()

    def are_those(self, url: str | None) -> bool:
        """Whether who agreed to the terms at ``url`` agreed to these."""
        return self.url in {None, url}

    def require(self, agreed: bool, how: str = "update the account with termsOfServiceAgreed: true") -> None:
        """Raise UserActionRequired unless these were agreed to. ``how`` tells the client what to do about it."""
        if self.url is not None and not agreed:
            detail = f"the terms of service at {self.url} must be agreed to; {how}"
            raise UserActionRequired(detail, headers=dict(self.links), members={"instance": self.url})
