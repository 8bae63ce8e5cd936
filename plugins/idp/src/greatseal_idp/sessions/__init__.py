"""Sign-in, sessions, sign-out."""
