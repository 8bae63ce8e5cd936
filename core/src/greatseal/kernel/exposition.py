"""GET /metrics on the admin listener (ruling R118)."""

import hmac

from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.problems import Unauthenticated
from greatseal.kernel.metrics import Metrics

__all__ = ["Exposition"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PROVES = Handler("a scraper has no session: whoever is on this machine, a client certificate that the listener trusts, or metrics_token")


class Exposition:
    """Shows the metrics to whoever may read them. ``private``: only this machine reaches the listener."""

    def __init__(self, metrics: Metrics, *, private: bool, token: Secret | None) -> None:
        self._metrics = metrics
        self._private = private
        self._token = None if token is None else token.value.encode()

    def routes(self) -> list[Route]:
        """The one route."""
        summary = "Counters and histograms of this process, for Prometheus."
        return [Route("GET", "/metrics", self._shown, listener="admin", auth=_PROVES, summary=summary)]

    async def _shown(self, call: Call) -> Reply:
        if not (self._private or self._is_known(call)):
            raise Unauthenticated(
                "metrics are for scrapers with [admin] metrics_token or a client certificate", headers={"WWW-Authenticate": "Bearer"}
            )
        return Reply.text(self._metrics.exposition(), content_type=CONTENT_TYPE)

    def _is_known(self, call: Call) -> bool:
        connection = call.connection
        if connection.certificate is not None and not connection.trusted_proxy:
            return True
        scheme, _, given = call.headers.get("Authorization", "").partition(" ")
        return self._token is not None and scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token)
