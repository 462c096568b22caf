"""``manage.py demo``: real work for several tenants, and a recount of what became of it."""
