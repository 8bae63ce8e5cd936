"""What is wrong with the kernel's own sections, asked without opening or making anything."""

from collections.abc import Collection, Sequence
from pathlib import Path

from greatseal.api.folders import folder_problem
from greatseal.api.http import ListenerName
from greatseal.api.problems import StartProblem
from greatseal.db.config import DatabaseConfig, check_url, dialect_of, sqlite_path
from greatseal.http.connection import TrustedProxies
from greatseal.http.sockets import ListenerConfig, check_address, is_private
from greatseal.http.tls import Tls, client_roots, lifetime_problem
from greatseal.kernel import settings
from greatseal.kernel.folders import state_problem
from greatseal.keys.cluster import load_cluster_key

Key = tuple[str, str]


def cluster_problems(cluster: settings.Cluster) -> list[str]:
    """The label of the node."""
    label = cluster.node_id
    if 1 <= len(label) <= 12 and label.isascii() and label.isalnum() and label == label.lower():
        return []
    return [f"[cluster] node_id: {label!r}: expected 1 to 12 of a to z and 0 to 9"]


def database_problems(database: DatabaseConfig) -> list[str]:
    """The URL."""
    try:
        check_url(database.url)
    except StartProblem as problem:
        return list(problem.messages)
    return []


def file_problems(state_dir: Path, database: DatabaseConfig | None, cluster: settings.Cluster) -> list[str]:
    """The state folder, the folder of the database and the cluster key, as whoever starts the service finds them."""
    problems = [problem for problem in [state_problem(state_dir)] if problem]
    if database and dialect_of(database.url) == "sqlite":
        folder = sqlite_path(database.url).parent
        if folder != state_dir and (reason := folder_problem(folder)):
            problems.append(f"[database] url: no database can be made in {folder}: {reason}")
    if cluster.key_file or not problems:  # else the state folder is told already, with what is in it
        problems += _key_file_problems(cluster.key_file or state_dir / "cluster.key", state_dir)
    return problems


def _key_file_problems(key_file: Path, state_dir: Path) -> list[str]:
    try:
        if key_file.exists():
            load_cluster_key(key_file, create=False)
        elif key_file.parent != state_dir:
            if not key_file.parent.is_dir():
                return [f"[cluster] key_file: {key_file}: the folder {key_file.parent} is not there; make it"]
            if reason := folder_problem(key_file.parent):
                return [f"[cluster] key_file: {key_file} cannot be made: {reason}"]
    except StartProblem as problem:
        return list(problem.messages)
    except OSError as error:
        return [f"{key_file}: the cluster key file cannot be used: {error.strerror}"]
    return []


def listeners(
    server: settings.Server, admin: settings.Admin | None, refused: Collection[Key], *, tls: bool, now: int
) -> tuple[list[ListenerConfig], list[str]]:
    """The listeners, and what is wrong with their addresses, TLS files and proxies. ``refused`` is in the report already.

    Who will not serve need not be able to read the TLS files; then ``tls`` is False.
    """
    found: list[ListenerConfig] = []
    problems: list[str] = []
    sections: list[tuple[ListenerName, str, settings.Server | settings.Admin]] = [("main", "server", server)]
    if admin:
        sections.append(("admin", "admin", admin))
        if admin.listen == server.listen and not admin.listen.endswith(":0"):
            problems.append(f"[admin] listen: {admin.listen!r} is the address of [server] listen; choose another")
    for name, section, chosen in sections:
        try:
            check_address(ListenerConfig(name, chosen.listen))
        except StartProblem as problem:
            problems += problem.messages
        else:
            if name == "admin" and not (is_private(chosen.listen) or chosen.tls_cert_file or (section, "listen") in refused):
                cure = "set tls_cert_file and tls_key_file, or listen on 127.0.0.1"
                problems.append(f"[admin] listen: others reach {chosen.listen!r}, without TLS; {cure}")
        sound = {(section, "tls_cert_file"), (section, "tls_key_file")}.isdisjoint(refused)
        files, wrong = _tls(chosen, read=tls, now=now) if sound else (None, [])
        problems += [f"[{section}] {message}" for message in wrong]
        found.append(ListenerConfig(name, chosen.listen, files))
    if admin and admin.client_ca_file:
        problems += _client_ca_problems(admin, admin.client_ca_file, read=tls)
    try:
        TrustedProxies(server.trusted_proxies)
    except ValueError as error:
        problems.append(f"[server] trusted_proxies: {error}; expected networks such as 10.0.0.0/8, or unix")
    return found, problems


def _client_ca_problems(admin: settings.Admin, file: Path, *, read: bool) -> list[str]:
    if admin.tls_cert_file is None:
        return ["[admin] client_ca_file: clients show certificates in TLS alone; set tls_cert_file and tls_key_file"]
    if read:
        try:
            client_roots(file)
        except StartProblem as problem:
            return [f"[admin] {message}" for message in problem.messages]
    return []


def _tls(chosen: settings.Server | settings.Admin, *, read: bool, now: int) -> tuple[Tls | None, Sequence[str]]:
    cert, key = chosen.tls_cert_file, chosen.tls_key_file
    if (cert is None) != (key is None):
        return None, ["tls_cert_file and tls_key_file: give both or none"]
    if not (cert and key and read):
        return None, []
    ended = [problem for problem in [lifetime_problem(cert, now)] if problem]
    try:
        return Tls(cert, key), ended
    except StartProblem as problem:
        return None, [*problem.messages, *ended]
