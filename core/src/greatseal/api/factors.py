"""More proofs of people who are known: who wants them, and who takes them. The sign-in is that of :mod:`greatseal.api.identity`."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from greatseal.api.components import Component
from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.http import Call
from greatseal.api.identity import Authenticated, SessionView
from greatseal.api.messages import Text


class FactorPolicy(Component):
    """Wants more of some people than what they proved, such as the code of a token that they have."""

    @abstractmethod
    async def missing(self, authenticated: Authenticated, user: User | None, call: Call) -> Sequence[str]:
        """By what the person can prove what is missing, as in :class:`FactorRequired`; nothing when it is enough.

        ``user`` is the person as their directory knows them, None where no directory serves the realm. Asked at every sign-in, before the
        session is made. What it raises refuses the sign-in.
        """

    async def enrolment(self, authenticated: Authenticated, user: User | None) -> str | None:
        """The path of the page where the person gets what :meth:`missing` asks for, None for who has it."""
        return None

    async def lacks(self, session: SessionView) -> bool:
        """Whether the session was let in without what its person could prove, such as on a device that is not asked for a code."""
        return False


class Factor(Component):
    """One more proof of a person who is known, such as the code of a token: who wants more looks here at what the person has."""

    amr: ClassVar[tuple[str, ...]]
    """The authentication methods (RFC 8176) that it proves. What is ``typed`` comes beside those of the session."""
    typed: ClassVar[bool] = True
    """Whether it is a code to be typed (:meth:`prove`), or else a sign-in of its own: that of the :class:`LoginScript` of this ``name``."""
    page: ClassVar[str]
    """The path of the page where a person gets one."""
    words: ClassVar[Text]
    """Of the link there."""

    @abstractmethod
    async def held(self, subject: str, user: User | None) -> bool:
        """Whether the person has one that can be proven now. ``user`` as for a :class:`FactorPolicy`."""

    async def prove(self, subject: str, user: User | None, code: Secret) -> bool:
        """Whether the code is good, which is used up by the question. The caller counts attempts."""
        raise NotImplementedError
