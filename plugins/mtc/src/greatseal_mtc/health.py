"""What /readyz and doctor say about the logs, and what operators should know of their settings."""

from collections.abc import Mapping

from greatseal.api.declarations import Check, CheckResult
from greatseal.api.issuance import Issuance
from greatseal.api.moments import SECOND
from greatseal.host import Host
from greatseal_mtc.logs import Logs
from greatseal_mtc.recording import is_waiting
from greatseal_mtc.settings import MtcSettings

DAY = 86_400
LATE = 2
"""Intervals after which a checkpoint is missed."""


def checks(host: Host, logs: Logs) -> list[Check]:
    """That each log is written for readiness; late checkpoints and what witnesses say for doctor alone."""

    async def written() -> CheckResult:
        wrong = [
            f"the log of CA {ca_id!r} is not written any more; restart the service"
            for ca_id, one in logs.open_logs.items()
            if one.log.stopped
        ]
        causes = [f"{one.log.name}: {one.log.stopped.detail}" for one in logs.open_logs.values() if one.log.stopped]
        sizes = ", ".join(f"{one.log.name} has {one.log.size} entries" for one in logs.open_logs.values())
        return CheckResult(ok=not wrong, detail="; ".join(wrong) or sizes or "no log is open here", cause="; ".join(causes))

    async def signed() -> CheckResult:
        now = host.clock.now()
        wrong = []
        for ca_id, one in logs.open_logs.items():
            newest = one.checkpoints.published
            late = LATE * one.settings.checkpoint_interval_secs * SECOND
            grown = newest is None or newest.size < one.log.size
            if grown and newest is not None and not 0 <= now - newest.checkpoint.created_at < late:
                wrong.append(f"the log of CA {ca_id!r} has grown and was not signed for {LATE} intervals; look at the log of the service")
            if await host.db.read(is_waiting, ca_id) and one.log.stopped:
                wrong.append(f"certificates of CA {ca_id!r} wait for the log")
            wrong += [
                f"a witness of the log of CA {ca_id!r} knows a larger tree: {said}" for said in one.checkpoints.cosigning.larger.values()
            ]
        return CheckResult(ok=not wrong, detail="; ".join(wrong) or "checkpoints are in time")

    return [Check(name="mtc", run=written), Check(name="mtc-checkpoints", run=signed, ready=False)]


def notes(settings: Mapping[str, MtcSettings], issuance: Issuance) -> list[str]:
    """What is right and will still surprise."""
    found = []
    for ca_id, one in settings.items():
        days = max((profile.validity_days for profile in issuance.profiles(ca_id).values()), default=0)
        kept = one.max_active_landmarks * one.landmark_interval_secs
        if kept < days * DAY:
            found.append(
                f"[mtc] max_active_landmarks: landmarks of CA {ca_id!r} are kept for {kept / DAY:.3g} days and certificates live for "
                f"{days}: then their landmark certificate is gone before they end; give more landmarks or a longer landmark_interval_secs"
            )
        found += [
            f"[[mtc.cosigners]] {cosigner.url}: its signatures are not checked, since cosigner_id_cert_pem is left out"
            for cosigner in one.cosigners
            if cosigner.key is None
        ]
    return found
