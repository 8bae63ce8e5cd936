"""``greatseal ctl`` for operators of the CA."""

COMMANDS = ()
