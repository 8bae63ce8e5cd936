"""Sealing under a cluster key of the test's own."""

from greatseal.keys.cluster import load_cluster_key
from greatseal.keys.sealed import Sealer

__all__ = ["Sealer", "load_cluster_key"]
