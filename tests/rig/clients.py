"""Running ACME clients that we did not write, and judging what they got."""

import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
from rig.server import Server


def run(*command: object, folder: Path, environ: dict[str, str] | None = None) -> str:
    """Run a client with nothing of our own environment and return what it printed; it must end with 0."""
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8", **(environ or {})}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=clean, check=False, timeout=90, capture_output=True, text=True, errors="replace"
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def verified(chain: str, server: Server, *names: str) -> x509.Certificate:
    """The leaf of a PEM chain of leaf and issuing CA, after path validation for every name against the root that the server shows."""
    leaf, issuing = x509.load_pem_x509_certificates(chain.encode())
    root = server.root()
    for name in names:
        shown = name.replace("*.", "any.")
        PolicyBuilder().store(Store([root])).build_server_verifier(x509.DNSName(shown)).verify(leaf, [issuing])
    found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert sorted(found) == sorted(names)
    return leaf
