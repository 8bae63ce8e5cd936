"""The client authentication methods of RFC 6749 s2.3.1, and ``none``."""
