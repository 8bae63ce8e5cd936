"""The store: statements, transactions, and the two databases they run on."""
