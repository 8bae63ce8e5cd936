"""Whether a call that changes something came from a page of ours: nobody is signed in by somebody else's page."""

from urllib.parse import urlsplit

from greatseal.api.http import Call
from greatseal.host import Host
from greatseal.http.csrf import refuse_foreign


class OwnOrigin:
    """The origins of issuer and base URL."""

    def __init__(self, host: Host) -> None:
        self._own = frozenset(f"{url.scheme}://{url.netloc}" for url in (urlsplit(host.issuer), urlsplit(host.base_url)))

    def check(self, call: Call) -> None:
        """Raises ForeignOrigin, also for a body that is not JSON."""
        media_type = call.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        refuse_foreign(
            origin=call.headers.get("Origin"),
            fetch_site=call.headers.get("Sec-Fetch-Site"),
            own_origins=self._own,
            content_type=media_type if call.has_body else None,
        )
