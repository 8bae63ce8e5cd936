"""The store: statements, transactions, and the two databases they run on (architecture 5)."""
