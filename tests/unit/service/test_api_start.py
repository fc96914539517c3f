"""What the API and its supervisor must not import: each costs a tenth of a second or more at every start."""

from __future__ import annotations

import subprocess
import sys

HTTP_CLIENTS = ("httpx", "requests", "urllib3", "aiohttp")
"""Nothing that was sent makes the API or a worker fetch anything."""


def test_the_api_starts_without_what_only_training_needs():
    heavy = (
        *("scipy.stats", "scipy.optimize", "sklearn", "numba", "alembic", "pyarrow", "pandas", "celery", *HTTP_CLIENTS),
        # What SciPy's array interface asks NumPy for, and what loading the tables of charsets takes.
        *("numpy.f2py", "numpy.testing", "unittest", "charset_normalizer", "encodings.gb18030", "encodings.mac_roman"),
        "solver.training",
    )
    script = f"import sys, service.app; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_dispatcher_and_worker_load_nothing_that_computes_or_answers():
    heavy = ("numpy", "scipy", "pyarrow", "pandas", "sklearn", "numba", "fastapi", "uvicorn", "alembic", *HTTP_CLIENTS)
    for module in ("service.dispatcher", "worker.main"):
        script = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
        done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]", module


def test_numpy_has_all_its_parts_for_others():
    """What keeps SciPy from loading some of them is undone afterwards."""
    script = "import solver.features, numpy; print('f2py' in dir(numpy), 'testing' in numpy.__all__, numpy.f2py)"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True True <module 'numpy.f2py'")


def test_data_sets_are_read_without_pandas_which_others_still_have():
    script = """if True:
        import sys
        import pyarrow as pa
        from service.ingest import columnar, reader
        told = pa.chunked_array([[1.5, 2.0]]).to_numpy().tolist(), "pandas" in sys.modules
        print(*told, pa.array([1, 2]).to_pandas().sum(), pa.array(sys.modules["pandas"].Series([3])).to_pylist())
    """
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1.5, 2.0] False 3 [3]"


def test_the_supervisor_starts_the_others_at_once():
    heavy = ("sqlalchemy", "psycopg", "alembic", "httpx", "numpy")
    script = f"import sys, service.local.serve; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
