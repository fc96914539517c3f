"""What the API and its supervisor must not import: each costs a tenth of a second or more at every start."""

from __future__ import annotations

import subprocess
import sys

HTTP_CLIENTS = ("httpx", "requests", "urllib3", "aiohttp")
"""Nothing that was sent makes the API or a worker fetch anything."""


def test_the_api_starts_without_what_only_training_needs():
    heavy = ("scipy.stats", "scipy.optimize", "sklearn", "numba", "alembic", "pyarrow", "celery", *HTTP_CLIENTS)
    script = f"import sys, service.app; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_supervisor_starts_the_others_at_once():
    heavy = ("sqlalchemy", "psycopg", "alembic", "httpx", "numpy")
    script = f"import sys, service.local.supervisor; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
