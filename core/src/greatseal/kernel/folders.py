"""Where files that belong to the service rest."""

import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

from greatseal.api.folders import folder_problem
from greatseal.api.problems import StartProblem
from greatseal.db.config import dialect_of, sqlite_path
from greatseal.kernel.settings import Server
from greatseal.kernel.urls import is_loopback

FALLBACK = Path("var")


def state_folder(server: Server, database_url: str, base_url: str) -> tuple[Path, list[str]]:
    """``[server] state_dir``, else the folder of the SQLite file, else systemd's, else ``var`` for who tries things out.

    A service that others use does not keep its keys in whatever folder it was started in, so then the folder must be given.
    """
    if server.state_dir is not None:
        return server.state_dir, []
    if dialect_of(database_url) == "sqlite":
        return sqlite_path(database_url).parent, []
    if systemd := os.environ.get("STATE_DIRECTORY", "").partition(":")[0]:
        return Path(systemd), []
    if is_loopback(urlsplit(base_url).hostname or ""):
        return FALLBACK, []
    cure = 'for example state_dir = "/var/lib/greatseal", or StateDirectory=greatseal in the systemd unit'
    return FALLBACK, [f"[server] state_dir: must be given with PostgreSQL; {cure}"]


def state_problem(path: Path) -> str | None:
    """What is wrong with the state folder, asked without making it."""
    if reason := folder_problem(path):
        return f"{path}: the state folder cannot be used: {reason}; see [server] state_dir"
    return _open_to_all(path)


def make_state_folder(path: Path) -> None:
    """Make it, for us alone. Raises StartProblem."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        problem = _open_to_all(path)
    except OSError as error:
        raise StartProblem(f"{path}: the state folder cannot be made: {error.strerror}; see [server] state_dir") from None
    if problem:
        raise StartProblem(problem)


def _open_to_all(path: Path) -> str | None:
    if path.exists() and path.stat().st_mode & stat.S_IWOTH:
        return f"{path}: the state folder can be written by everybody; run chmod o-w {path}"
    return None
