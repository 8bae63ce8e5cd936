"""Pages for people: server-rendered, without scripts."""
