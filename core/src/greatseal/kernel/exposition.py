"""GET /metrics on the admin listener."""

import hmac
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.problems import Unauthenticated
from greatseal.kernel.metrics import Counter, Metrics

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["Exposition", "text_of"]

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
        text, content_type = text_of(self._metrics)
        return Reply.text(text, content_type=content_type)

    def _is_known(self, call: Call) -> bool:
        if call.connection.certificate is not None:
            return True
        scheme, _, given = call.headers.get("Authorization", "").partition(" ")
        return self._token is not None and scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token)


def text_of(metrics: Metrics) -> tuple[str, str]:
    """What a scraper reads, and its content type."""
    # 57 ms and 6 MB, for those who look at metrics.
    from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(metrics))
    return generate_latest(registry).decode(), CONTENT_TYPE_PLAIN_0_0_4


class _Collected:
    """A collector of prometheus_client that shows what the kernel counted."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        for metric in self._metrics.all():
            if isinstance(metric, Counter):
                counted = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
                for labels, count in metric.counts():
                    counted.add_metric(labels, count)
                yield counted
            else:
                observed = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
                for labels, buckets, total in metric.rows():
                    observed.add_metric(
                        labels, [("+Inf" if bound == math.inf else str(float(bound)), many) for bound, many in buckets], total
                    )
                yield observed
