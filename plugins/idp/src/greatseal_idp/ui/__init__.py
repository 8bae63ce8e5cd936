"""The pages on which people sign in and see their account."""
