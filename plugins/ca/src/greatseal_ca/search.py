"""What lists of certificates can be asked for, and what they show."""

from collections.abc import Sequence
from typing import Any

import msgspec
from cryptography import x509

from greatseal.api.http import Call, Reply
from greatseal.api.inventory import CertificateDetails, CertificateQuery
from greatseal.api.issuance import Certificate
from greatseal.api.lists import LARGEST, Page, filter_of, next_link, number_of, page_of
from greatseal.api.moments import SECOND, seconds
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Refuse, Tx, scan
from greatseal.host import Host
from greatseal_ca.issue import CertificateAuthority
from greatseal_ca.listing import Ending
from greatseal_ca.names import names_of
from greatseal_ca.revocation import REASONS, Reason
from greatseal_ca.validity import DAY

STATUSES = ("active", "signing", "issued", "unknown", "revoked")
DAYS, MOST_DAYS = 30, 36_500
AT_ONCE = 500
"""Certificates that one request revokes."""
_WORDS = {number: word for word, number in REASONS.items()}
_MOMENTS = {"issued_after": "since", "issued_before": "until", "ends_after": "ends_since", "ends_before": "ends_until"}


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates that are revoked for one reason."""

    cert_ids: tuple[str, ...]
    reason: int | Reason | None = None


def query_of(call: Call, page: Page, now: int, *, ca_id: str | None = None) -> CertificateQuery:
    """The query of a list, filtered by ``serial``, ``subject`` (a name, or behind a dot a domain above it), ``account_id``, ``profile``,
    ``spki`` (its SHA-256), ``status`` and ``ca_id``, and by Unix timestamps: from ``issued_after`` on and before ``issued_before``, ending
    from ``ends_after`` on and before ``ends_before``.

    ``ca_id`` is the only CA that the caller may see. Active is issued and not ended. Raises BadRequest.
    """
    status = filter_of(call, "status")
    if status is not None and status not in STATUSES:
        raise BadRequest(f"status: expected one of {', '.join(STATUSES)}")
    wanted: dict[str, Any] = {
        field: number_of(call, name, least=0, default=0, most=LARGEST // SECOND) * SECOND
        for name, field in _MOMENTS.items()
        if name in call.query
    }
    if status == "active":
        status, wanted["ends_since"] = "issued", max(now, wanted.get("ends_since", 0))
    serial = octets_of(call, "serial")
    return CertificateQuery(
        limit=page.limit,
        before=page.after or None,
        ca_id=ca_id or filter_of(call, "ca_id"),
        account_id=filter_of(call, "account_id"),
        profile=filter_of(call, "profile"),
        status=status,
        serial=None if serial is None else serial.lstrip(b"\0"),
        spki_sha256=octets_of(call, "spki"),
        name=filter_of(call, "subject"),
        **wanted,
    )


def ending_of(call: Call, now: int, *, ca_id: str | None = None) -> Ending:
    """The query of those that end within ``days`` and were not renewed, of ``ca_id`` and ``account_id`` where they are given.

    ``ca_id`` is the only CA that the caller may see. Raises BadRequest.
    """
    page, days = page_of(call), number_of(call, "days", least=1, default=DAYS, most=MOST_DAYS)
    moment, last = page.moment(now)
    return Ending(
        limit=page.limit,
        after=(max(moment, now), last),
        until=now + days * DAY,
        ca_id=ca_id or filter_of(call, "ca_id"),
        account_id=filter_of(call, "account_id"),
    )


async def paged(host: Host, call: Call, found: tuple[Sequence[Certificate], str | None]) -> Reply:
    """A page of certificates with their names, which are taken apart in a thread, and the link to the next one."""
    certificates, following = found
    listed = await host.blocking.run("ca-names", lambda: [shown(one, names=True) for one in certificates])
    kept = await details(host, certificates, whole=False)
    reply = Reply.json([{**one, **kept.get(one["id"], {})} for one in listed])
    return reply if following is None else reply.with_headers(next_link(call, host.base_url, after=following))


async def details(host: Host, certificates: Sequence[Certificate], *, whole: bool) -> dict[str, dict[str, object]]:
    """What other plugins keep about certificates, by their ids."""
    found: dict[str, dict[str, object]] = {}
    for known in host.components(CertificateDetails).values():
        for id, members in (await known.members(certificates, whole=whole)).items():
            found.setdefault(id, {}).update(members)
    return found


def octets_of(call: Call, name: str) -> bytes | None:
    """Hexadecimal digits of the query, with or without colons. Raises BadRequest."""
    text = filter_of(call, name)
    try:
        return None if text is None else bytes.fromhex(text.replace(":", ""))
    except ValueError:
        raise BadRequest(f"{name}: expected hexadecimal digits, two for each octet") from None


def shown(one: Certificate, *, names: bool = False) -> dict[str, Any]:
    """A certificate; what does not apply is left out, never null."""
    optional = {
        "serial": one.serial.hex() if one.serial else None,
        "account_id": one.account_id,
        "order_id": one.order_id,
        "names": list(names_of(x509.load_der_x509_certificate(one.der))) if names and one.der else None,
        "revoked_at": one.revoked_at and seconds(one.revoked_at),
        "reason": None if one.reason is None else _WORDS[one.reason],
    }
    return {
        "id": one.id,
        "ca_id": one.ca_id,
        "status": one.status,
        "profile": one.profile,
        **{name: value for name, value in optional.items() if value is not None},
        "not_before": seconds(one.not_before),
        "not_after": seconds(one.not_after),
    }


def reason_of(given: int | str | None) -> int | None:
    """The number of a reason in words or numbers, of RFC 5280 s5.3.1; whether it is one, the authority says."""
    return REASONS[given] if isinstance(given, str) else given


async def revoke_all(host: Host, issuance: CertificateAuthority, batch: Batch, *, by: str, ca_id: str | None = None) -> dict[str, Any]:
    """Revoke those of the batch that can be revoked, of one CA alone where ``ca_id`` is given; every list says so once, before it returns.

    Raises BadRequest.
    """
    if not 0 < len(batch.cert_ids) <= AT_ONCE or len(set(batch.cert_ids)) < len(batch.cert_ids):
        raise BadRequest(f"cert_ids: expected 1 to {AT_ONCE} ids, each once")
    revoked, refused = await host.db.write(_revoke_all, issuance, batch, by, ca_id)
    await issuance.publish(revoked)
    return {"revoked": [one.id for one in revoked], "refused": [{"cert_id": id, "detail": why} for id, why in refused.items()]}


@scan
def _revoke_all(
    tx: Tx, issuance: CertificateAuthority, batch: Batch, by: str, ca_id: str | None
) -> tuple[list[Certificate], dict[str, str]]:
    revoked: list[Certificate] = []
    refused: dict[str, str] = {}
    reason = reason_of(batch.reason)
    for id in batch.cert_ids:
        try:
            of = issuance.subscriber_of(tx, id)
            if of == "":
                refused[id] = "it is the certificate of a CA; revoke it by itself"
            elif of is not None and ca_id not in {None, of}:
                refused[id] = "the certificate is of another CA"
            else:
                revoked.append(issuance.revoke(tx, id, reason, by=by))
        except Refuse as refusal:  # before it changed anything: the others go on
            problem: Problem = refusal.problem
            if isinstance(problem, BadRequest):
                raise
            refused[id] = problem.detail
    return revoked, refused
