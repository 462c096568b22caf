#!/usr/bin/env python
"""The example project's manage.py."""

import json
import os
import sys

try:
    from django.core.management import execute_from_command_line

    from ultimate_jobs.errors import UltimateJobsError
except ImportError as error:
    sys.exit(f"{error}\n  fix: {sys.executable} -m pip install -e '.[demo]'")


def main() -> None:
    """Run a command; what the settings refuse (DATABASE_URL) is told like any other error."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    try:
        execute_from_command_line(sys.argv)
    except UltimateJobsError as error:
        if "--traceback" in sys.argv:
            raise
        if "--json" in sys.argv:
            print(json.dumps({"error": error.as_dict()}))
        else:
            print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
