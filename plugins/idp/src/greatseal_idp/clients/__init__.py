"""OAuth clients: their registry, the rules of a registration, and how they prove themselves."""
