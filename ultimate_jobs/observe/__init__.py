"""Subscribers to events: logs now; metrics and traces join here."""
