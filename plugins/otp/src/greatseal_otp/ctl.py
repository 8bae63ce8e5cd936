"""``greatseal ctl otp``: the one-time code tokens of people."""

import click

from greatseal.ctl.base import YES, Admin, command, confirm

COLUMNS = ("token_id", "label", "type", "confirmed", "created_at", "last_used_at", "source")


@click.group()
def otp() -> None:
    """One-time code tokens of people, such as those on a phone that was lost."""


@command(otp, "list")
@click.argument("username")
def list_tokens(admin: Admin, username: str) -> None:
    """List the tokens of USERNAME."""
    admin.output.rows(iter(admin.ask("GET", "users", username, "otp-tokens")), COLUMNS, f"{username} has no tokens")


@command(otp, "delete")
@click.argument("username")
@click.argument("token_id", required=False)
@YES
def delete_tokens(admin: Admin, username: str, token_id: str | None, yes: bool) -> None:
    """Delete one token of USERNAME; without TOKEN_ID all of them, and the recovery codes: the password is enough then."""
    if token_id is not None:
        confirm(f"Delete the token {token_id} of {username}?", yes)
        admin.ask("DELETE", "users", username, "otp-tokens", token_id)
        admin.output.done(f"token {token_id} is deleted")
        return
    confirm(f"Delete all one-time code tokens and the recovery codes of {username}? Their password is enough then.", yes)
    deleted = admin.ask("DELETE", "users", username, "otp-tokens")["deleted"]
    admin.output.done(f"{username} has no tokens and no recovery codes any more; tokens that were deleted: {deleted}")


@command(otp, "unlock")
@click.argument("username")
def unlock(admin: Admin, username: str) -> None:
    """Take codes of USERNAME again, after too many wrong ones in a row."""
    admin.ask("DELETE", "users", username, "otp-lock")
    admin.output.done(f"codes of {username} are taken again")


COMMANDS = [otp]
