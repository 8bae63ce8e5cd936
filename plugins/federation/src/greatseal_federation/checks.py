"""Whether the providers can be asked: for doctor."""

from greatseal.api.declarations import CheckResult
from greatseal.api.problems import Unavailable
from greatseal_federation.metadata import MetadataStore
from greatseal_federation.refusals import Untrusted
from greatseal_federation.upstreams import Upstreams


class UpstreamCheck:
    """Reads the metadata of every provider."""

    def __init__(self, upstreams: Upstreams, metadata: MetadataStore) -> None:
        self._upstreams = upstreams
        self._metadata = metadata

    async def run(self) -> CheckResult:
        """Names those that do not answer as they should."""
        wrong: dict[str, str] = {}
        for upstream in self._upstreams.all():
            try:
                await self._metadata.of(upstream)
            except (Unavailable, Untrusted) as problem:
                wrong[upstream.id] = problem.cause or problem.detail
        if not wrong:
            return CheckResult(ok=True, detail=f"{len(self._upstreams.all())} upstream providers answer")
        cause = "; ".join(f"{id}: {reason}" for id, reason in wrong.items())
        return CheckResult(ok=False, detail=f"nobody can sign in with {', '.join(wrong)}; greatseal doctor says why", cause=cause)
