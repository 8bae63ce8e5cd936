"""A CA whose certificates are logged, with a client that orders them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from rig.acme import AcmeClient, Answer, Site, acme_site, csr_for

from greatseal_mtc.logs import CaLog

ANCHOR = "32473.1"
PROFILES = {"logged": {"validity_days": 47}, "tree": {"issue_as": "mtc", "validity_days": 7}}


class LoggedSite(msgspec.Struct):
    """A site with a log of each CA; ``base`` is where that of the default one is."""

    site: Site
    client: AcmeClient

    @property
    def base(self) -> str:
        return f"{self.site.url}/acme/mtc"

    @property
    def log(self) -> CaLog:
        """The log of the default CA, inside of the service."""
        logs = self.plugin.logs
        found: CaLog = logs.open_logs[logs.default_id]
        return found

    @property
    def plugin(self) -> Any:
        """The parts of the plugin."""
        host = self.site.service.host("mtc")
        return host._plugin.parts(host)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.client.get(f"{self.base}/{path}", **options)

    async def order(self, *names: str, profile: str = "logged") -> tuple[str, bytes]:
        """The id of a new certificate, and the certificate in DER."""
        ready = await self.client.ready(self.site.responder, *names, profile=profile)
        done = await self.client.finalize(ready.json, csr_for(*names))
        assert done.status == 200, done.body
        order = done.json if done.json["status"] == "valid" else await self.client.until(ready.location, "processing")
        url: str = order["certificate"]
        answer = await self.client.get(url)
        if answer.headers["Content-Type"] == "application/pkix-cert":
            return url.rpartition("/")[2], answer.body
        leaf = x509.load_pem_x509_certificates(answer.body)[0]
        return url.rpartition("/")[2], leaf.public_bytes(Encoding.DER)

    async def logged(self, *names: str, profile: str = "logged") -> tuple[str, bytes]:
        """The same, once it has its index."""
        id, der = await self.order(*names, profile=profile)
        while (await self.get(f"inclusion-proof/{id}")).status == 404:
            pass
        return id, der

    async def checkpoint(self) -> None:
        """Sign the log now."""
        await self.log.checkpoints.run()

    async def landmark(self) -> None:
        """Make a landmark of all that is in the log, whatever time it is, and its certificate."""
        await self.log.landmarks.maybe_allocate()
        await self.log.landmarks.tick()


@asynccontextmanager
async def logged_site(
    start_service: Any, *more: str, mtc: Mapping[str, Any] = {}, database: str | None = None, **sections: Any
) -> AsyncIterator[LoggedSite]:
    """ACME with the profiles of :data:`PROFILES`; checkpoints and landmarks come when the test makes them, after those of the start."""
    sections = {"profiles": PROFILES, **sections}
    with TemporaryDirectory() as folder:
        places = {"log_backend": "files", "log_path": folder, "trust_anchor_id": ANCHOR}
        settings = {**places, "checkpoint_interval_secs": 86_400, "landmark_interval_secs": 1, **mtc}
        async with acme_site(start_service, "mtc", *more, database=database, mtc=settings, **sections) as site:
            yield LoggedSite(site, await site.client())
            await site.service.stop()  # before its folder goes
