"""The CA's part of the start page: its root certificate, and how to trust it."""

from functools import partial
from hashlib import sha256

from greatseal.api.messages import Message
from greatseal.api.pages import StartLine, StartPart
from greatseal_ca.authorities import Authorities

COMMANDS = (
    (
        Message("Debian and Ubuntu:"),
        "sudo install -m 644 {file} /usr/local/share/ca-certificates/{name}.crt && sudo update-ca-certificates",
    ),
    (Message("Fedora and RHEL:"), "sudo trust anchor --store {file}"),
    (Message("macOS:"), "sudo security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain {file}"),
    (Message("Windows, as administrator:"), "certutil -addstore -f Root {file}"),
)
"""What makes a system trust a certificate."""


def start_parts(authorities: Authorities, base_url: str) -> list[StartPart]:
    """One for each CA."""
    return [
        StartPart(
            title=Message("The certificate authority")
            if len(authorities.ids) == 1
            else Message("The certificate authority %(name)s", {"name": ca_id}),
            lines=partial(start_lines, authorities, ca_id, base_url),
        )
        for ca_id in authorities.ids
    ]


def start_lines(authorities: Authorities, ca_id: str, base_url: str) -> list[StartLine]:
    """Where the root certificate is, how to know it, and how to trust it."""
    of = "" if ca_id == authorities.default_id else f"{ca_id}/"
    file = f"{ca_id}-root.pem"
    return [
        StartLine(words=Message("Root certificate"), link=f"/ca/{of}root.pem"),
        StartLine(words=Message("Chain of the issuing certificate"), link=f"/ca/{of}chain.pem"),
        StartLine(words=Message("SHA-256 fingerprint of the root certificate:"), value=fingerprint(authorities.issuing[ca_id].chain[-1])),
        StartLine(
            words=Message("To trust what this CA issues, fetch the root certificate:"), value=f"curl -o {file} {base_url}/ca/{of}root.pem"
        ),
        StartLine(
            words=Message("Compare the fingerprint with the one that the operator gave you by another way:"),
            value=f"openssl x509 -noout -fingerprint -sha256 -in {file}",
        ),
        *(StartLine(words=words, value=command.format(file=file, name=f"{ca_id}-root")) for words, command in COMMANDS),
    ]


def fingerprint(der: bytes) -> str:
    """As openssl writes it."""
    return ":".join(f"{byte:02X}" for byte in sha256(der).digest())
