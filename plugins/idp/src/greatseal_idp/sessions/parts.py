"""Sign-in, sessions and sign-out, put together."""
