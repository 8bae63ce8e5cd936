"""Whom a token of a trusted issuer means: the rule of its configuration."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from greatseal.api.directory import Directories
from greatseal.api.trust import NotVouched
from greatseal.jose.foreign import text_of
from greatseal_jwt_bearer.settings import IssuerTable


async def person_of(table: IssuerTable, claims: Mapping[str, Any], directories: Directories) -> str:
    """The canonical subject of the person that the claims name. Raises NotVouched for nobody, DirectoryUnavailable."""
    user = await directories.user(_username(table, claims))
    if user is None:
        raise NotVouched("no directory knows the person")
    return user.subject


def workload_of(table: IssuerTable, claims: Mapping[str, Any]) -> str:
    """``<issuer>#<sub>``, a name that neither a person (``name@realm``) nor a client has. Raises NotVouched for one that may not come."""
    subject = text_of(claims, "sub")
    if not any(_stands_for(workload, subject) for workload in table.workloads):
        raise NotVouched("the workload is none of those that may come")
    return f"{table.issuer}#{quote(subject, safe=':/')}"


def _username(table: IssuerTable, claims: Mapping[str, Any]) -> str:
    if table.subject == "map":
        username = table.people.get(text_of(claims, "sub"))
        if username is None:
            raise NotVouched("people does not name the subject")
        return username
    return text_of(claims, "sub" if table.subject == "username" else table.subject.removeprefix("claim:"))


def _stands_for(workload: str, subject: str) -> bool:
    return subject.startswith(workload[:-1]) if workload.endswith("*") else subject == workload
