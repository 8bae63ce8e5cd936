"""Where a log rests: files that any web server can serve, or the database."""
