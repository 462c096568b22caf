"""``manage.py bench``: how fast the queue is, beside raw SQL on the same server."""
