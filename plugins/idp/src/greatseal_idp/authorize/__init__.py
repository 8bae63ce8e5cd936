"""The authorization endpoint, pushed requests and consent."""
