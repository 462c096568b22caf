"""``manage.py`` of a site whose database is reached through a pooler in transaction mode."""

from __future__ import annotations

import sys

from django.conf import settings
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    # As Django's own documentation asks for behind such a pooler.
    settings.DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
    execute_from_command_line(sys.argv)
