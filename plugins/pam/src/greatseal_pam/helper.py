"""The helper process: it holds the conversations with PAM and NSS, which may hang and crash, one at a time.

A line of JSON comes in, a line of JSON goes out. The standard library alone; the service starts it with :data:`greatseal_pam.pool.COMMAND`.
"""

import json
import os
import resource
import select
import threading
from collections.abc import Callable
from typing import Any

from greatseal_pam.accounts import Accounts, Outage
from greatseal_pam.libpam import Pam, Verdict
from greatseal_pam.processes import end

_MISSING = 10
"""PAM_USER_UNKNOWN."""


def main() -> None:
    """Answer until the service is gone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    # What a module prints or starts gets neither end of the pipes.
    asked, answered = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    threading.Thread(target=_end_with, args=(asked,), daemon=True).start()
    with os.fdopen(asked, "rb") as questions, os.fdopen(answered, "wb") as answers:
        for line in questions:
            answers.write(json.dumps(_answer(json.loads(line))).encode() + b"\n")
            answers.flush()


def _end_with(pipe: int) -> None:
    """End this process and what its modules started when nobody has the other end any more, also in the middle of a conversation."""
    poll = select.poll()
    poll.register(pipe, 0)
    poll.poll()
    end(os.getpid())


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    """``result``, or ``outage`` with the reason."""
    try:
        return {"result": _QUESTIONS[question.pop("ask")](**question)}
    except (Outage, OSError, AttributeError) as error:
        return {"outage": f"{type(error).__name__}: {error}"}


def _authenticate(*, service: str, folder: str, user: str, password: str, remote: str, min_uid: int | None, decoy: str) -> dict[str, Any]:
    """``min_uid`` None: the stack alone says who is there. A password that C cannot hold is empty here.

    Who is no person gets the time of somebody unknown: the stack is asked for the ``decoy``, never for the name or with the password.
    """
    pam = Pam(service, folder)
    person = {"username": user} if min_uid is None else Accounts(min_uid).user(user)
    if person is None:
        return pam.authenticate(decoy, decoy, remote)._replace(step="authenticate", code=_MISSING, user="")._asdict()
    verdict = pam.authenticate(person["username"], password or decoy, remote)
    return _bound(verdict, min_uid, refused=not password)._asdict()


def _change(*, service: str, folder: str, user: str, password: str, new: str, remote: str, min_uid: int | None) -> dict[str, Any]:
    if min_uid is not None and Accounts(min_uid).user(user) is None:
        return Verdict("authenticate", _MISSING, "", (), (), 0)._asdict()
    return _bound(Pam(service, folder).change(user, password, new, remote), min_uid)._asdict()


def _bound(verdict: Verdict, min_uid: int | None, *, refused: bool = False) -> Verdict:
    """A stack may give the person another name: it is one of a person too. What was ``refused`` is no success, whatever the stack says."""
    if refused and verdict.step != "start" and verdict.code in {0, 12}:
        return verdict._replace(step="authenticate", code=7)
    if min_uid is not None and verdict.step != "start" and Accounts(min_uid).user(verdict.user) is None:
        return verdict._replace(step="authenticate", code=_MISSING)
    return verdict


def _user(*, name: str, min_uid: int) -> dict[str, Any] | None:
    return Accounts(min_uid).user(name)


def _group(*, name: str, min_uid: int) -> dict[str, Any] | None:
    return Accounts(min_uid).group(name)


def _users(*, prefix: str, limit: int, after: str, min_uid: int) -> list[dict[str, Any]]:
    return Accounts(min_uid).users(prefix, limit, after)


def _groups(*, prefix: str, limit: int, after: str, min_uid: int) -> list[dict[str, Any]]:
    return Accounts(min_uid).groups(prefix, limit, after)


def _ready(*, folder: str) -> bool:
    from greatseal_pam.libpam import load

    load(folder)
    return True


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "authenticate": _authenticate,
    "change": _change,
    "user": _user,
    "group": _group,
    "users": _users,
    "groups": _groups,
    "ready": _ready,
}
