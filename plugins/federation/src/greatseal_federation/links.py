"""People are told when an account elsewhere begins or ceases to sign them in."""

from greatseal.api.messages import Message, Text, marked
from greatseal.api.notices import Met, warning
from greatseal.api.services import NOTICES
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal_federation import accounts
from greatseal_federation.accounts import Account
from greatseal_federation.sessions import Sessions
from greatseal_federation.upstreams import Upstreams


class Links:
    """Makes and deletes links, each with its notice in one transaction."""

    def __init__(self, host: Host, upstreams: Upstreams, sessions: Sessions) -> None:
        self._host = host
        self._upstreams = upstreams
        self.sessions = sessions

    def add(self, tx: Tx, account: Account) -> Account:
        """As :func:`greatseal_federation.accounts.add`; who is made by it has nothing yet that anybody could take."""
        added = accounts.add(tx, account)
        if account.person is None:
            self._tell(tx, account, "account_linked", Message("An account elsewhere signs you in from now on"), account.created_by)
        return added

    async def unlink(self, id: str, by: str, *, subject: str | None = None, languages: tuple[str, ...] = ()) -> Account | None:
        """Delete a link, of that ``subject`` alone where it is given, and end the sessions that came of it. None when it is not there."""

        def remove(tx: Tx) -> tuple[Account | None, list[str]]:
            found = accounts.find(tx, id)
            if found is None or subject not in {None, found.subject}:
                return None, []
            removed = accounts.remove(tx, id, by)
            if removed is not None and removed.person is None:
                self._tell(
                    tx, removed, "account_unlinked", Message("An account elsewhere does not sign you in any more"), by, languages=languages
                )
            return removed, self.sessions.end_account(tx, id)

        found, ending = await self._host.db.write(remove)
        await self.sessions.finish(ending)
        return found

    def _tell(self, tx: Tx, account: Account, kind: str, title: Message, by: str, *, languages: tuple[str, ...] = ()) -> None:
        notices = self._host.optional_service(NOTICES)
        if notices is None:
            return
        upstream = self._upstreams.find(account.upstream_id)
        facts: dict[str, Text] = {
            marked("Provider"): account.upstream_id if upstream is None else upstream.display_name,
            marked("Account"): account.email or account.upstream_sub,
            **({} if by == account.subject else {marked("By"): Message("an administrator")}),
        }
        notices.tell(tx, warning(kind, account.subject, title, Met(facts=facts, languages=languages)))
