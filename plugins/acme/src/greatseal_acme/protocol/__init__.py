"""What travels: signed requests, nonces, URLs, identifiers, and the objects of RFC 8555 s7.1."""
