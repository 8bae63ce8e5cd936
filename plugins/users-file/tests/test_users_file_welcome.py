"""What a person at a terminal is told when the service is ready."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

from greatseal.testing.service import free_port


def greeting(folder, *, program):
    """The lines that a start prints until it is ready."""
    process = subprocess.Popen(
        [*program, "serve", "-c", "my config.toml"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    lines = []
    try:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line.strip().startswith("password"):
                break
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    return lines


def test_each_start_says_where_to_sign_in_and_the_first_one_the_password(tmp_path):
    port = free_port()
    (tmp_path / "my config.toml").write_text(
        '[plugins]\nenabled = ["users-file"]\n'
        f'[server]\nbase_url = "http://localhost:{port}"\nlisten = "127.0.0.1:{port}"\n'
        '[users]\nfile = "var/users.toml"\n'
    )
    program = str(Path(sys.executable).with_name("greatseal"))

    first, again = greeting(tmp_path, program=[program]), greeting(tmp_path, program=[program])

    assert "Sign in (this password is shown once)" in first
    assert f"    http://localhost:{port}/account" in first
    assert "Sign in" not in first
    assert again[-5:-1] == ["Sign in", "", f"    http://localhost:{port}/account", "    name      as in var/users.toml"]
    assert again[-1] == f"    password  a new one: {program} users passwd admin -c 'my config.toml'"


def test_a_first_start_that_fails_keeps_no_password_that_nobody_saw(tmp_path):
    """The address was in use: the next start is the first one again, and prints a password."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "my config.toml").write_text(
            '[plugins]\nenabled = ["users-file"]\n'
            f'[server]\nbase_url = "http://localhost:{port}"\nlisten = "127.0.0.1:{port}"\n'
            '[users]\nfile = "var/users.toml"\n'
        )
        program = str(Path(sys.executable).with_name("greatseal"))
        failed = subprocess.run(
            [program, "serve", "-c", "my config.toml"], cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60
        )

    assert (failed.returncode, failed.stdout) == (2, "")
    assert not (tmp_path / "var/users.toml").exists()
    assert "Sign in (this password is shown once)" in greeting(tmp_path, program=[program])


async def test_without_an_administrator_of_that_name_no_password_is_offered(start_service, tmp_path):
    path = tmp_path / "users.toml"
    path.write_text('[[user]]\nusername = "ada"\ngroups = ["administrators"]\n')
    path.chmod(0o600)

    service = await start_service("users-file", users={"file": str(path)})

    lines = [line for one in service.kernel.welcomes for line in one.lines()]
    assert lines == [f"{service.url}/account", f"name      as in {path}"]


async def test_without_a_users_file_nothing_is_said(start_service):
    service = await start_service("users-file")

    assert [line for one in service.kernel.welcomes for line in one.lines()] == []
