"""Identity provider, certificate authority and Kerberos as one install. The sets are those of the bundles that it brings."""
