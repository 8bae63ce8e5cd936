"""Merkle Tree Certificates: a log of what a CA issues that anyone can check (draft-ietf-plants-merkle-tree-certs-05)."""

from greatseal_mtc.plugin import Plugin

__all__ = ["Plugin"]
