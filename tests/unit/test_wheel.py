"""The wheel: built from the working tree, installed into an environment of its own, and run from there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER_PACKAGES = [
    re.split(r"[^\w-]", requirement)[0].replace("-", "_")
    for requirement in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][
        "server"
    ]
    if not requirement.startswith("packaging")  # which many others use, too
]


def load_hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hook = load_hook()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    code = f"from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel in an environment that has this one's other packages, but not the repository; returns its Python."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"),
            *("--disable-pip-version-check", "--no-deps", "--no-index", str(wheel)),
        ],
        check=True,
        timeout=120,
    )
    site = next(folder.glob("lib/python*/site-packages"))
    # A .pth file inside a folder that is named by another one is not read: the editable installation stays out.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(python: Path, *arguments: str, folder: Path, code: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PREFSVM"))}
    done = subprocess.run(
        [str(python), *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_claims_one_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"prefsvm"}
    versions = {path.name for path in (ROOT / "migrations" / "versions").glob("*.py")}
    assert {name.rpartition("/")[2] for name in names if "/migrations/versions/" in name} == versions
    pages = ("service/pages/templates/frame.html", "service/pages/static/uPlot.LICENSE.txt")
    for needed in ("py.typed", *pages, "service/cli/main.py", "worker/forkserver.py", "migrations/script.py.mako"):
        assert f"prefsvm/{needed}" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith((".nbi", ".nbc"))]


def test_every_module_of_the_wheel_imports_with_no_other_name_of_ours(installed: Path, tmp_path: Path) -> None:
    code = """
import importlib, json, pkgutil, sys
import prefsvm
names = [m.name for m in pkgutil.walk_packages(prefsvm.__path__, "prefsvm.") if "versions." not in m.name]
needs = ("env", "gpu", "gpu_device", "gpu_pools", "telemetry")  # Alembic's, CuPy, and what traces need
needs += ("onnx_encoder", "server")  # what runs an encoder of texts
names = [n for n in names if n.rpartition(".")[2] not in needs]
for name in names:
    importlib.import_module(name)
print(json.dumps([len(names), [n for n in ("solver", "service", "worker", "migrations") if n in sys.modules]]))
"""
    count, ours = json.loads(run(installed, "-c", code, folder=tmp_path))
    assert count > 150
    assert ours == []


def test_the_commands_run(installed: Path, tmp_path: Path) -> None:
    assert "serve" in run(installed, "-m", "prefsvm", "--help", folder=tmp_path)
    script = installed.with_name("prefsvm")
    done = subprocess.run([script, "serve", "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert "--data-dir" in done.stdout


def test_a_command_that_needs_the_server_says_what_to_install(installed: Path, tmp_path: Path) -> None:
    code = """
import contextlib, io, sys
sys.modules["pydantic"] = None
sys.argv = ["prefsvm", "serve"]
from prefsvm.__main__ import main
told = io.StringIO()
with contextlib.redirect_stderr(told), contextlib.suppress(SystemExit):
    main()
assert told.getvalue() == "prefsvm: pydantic is not installed: pip install 'prefsvm[local]'\\n", told.getvalue()
"""
    run(installed, "-c", code, folder=tmp_path)


def test_estimators_and_client_take_no_package_of_the_server_along(installed: Path, tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules |= dict.fromkeys({SERVER_PACKAGES!r})  # as where they are not installed: importing them is an error
import prefsvm
assert not [n for n in sys.modules if n.partition('.')[0] in ('numpy', 'httpx')]
import numpy as np
X = np.r_[np.random.default_rng(0).normal(-2, 1, (30, 2)), np.random.default_rng(1).normal(2, 1, (30, 2))]
for name in prefsvm.__all__:
    getattr(prefsvm, name)
model = prefsvm.GaussianMixtureClassifier().fit(X, np.repeat([0, 1], 30))
assert type(model).__module__.startswith("prefsvm.solver.estimators.")
import prefsvm.service.cli.main
"""
    run(installed, "-c", code, folder=tmp_path)


@pytest.mark.slow
def test_a_job_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """The whole stack: servers, migrations, readers of uploads, fork server, solver."""
    code = """
import sys
from pathlib import Path
import httpx, time
from prefsvm.service.local.stack import local_stack
from prefsvm.solver.examples import breast_tumours
with local_stack(Path("data")) as stack, httpx.Client(base_url=stack.url, timeout=120) as client:
    tumours = breast_tumours()
    dataset = client.post("/datasets", files={"file": ("t.csv", tumours.training_csv)}).raise_for_status().json()
    job = client.post("/train", json={"dataset": dataset["id"], "target": "diagnosis", "positive": "malignant",
        "algorithm": "svm", "objective": {"kind": "recall", "target": 0.9}}).raise_for_status().json()
    while job["status"] in ("queued", "running"):
        time.sleep(0.2)
        job = client.get("/jobs/" + job["id"]).raise_for_status().json()
    assert job["status"] == "succeeded", job
    answer = client.post("/predict", json={"model": job["model_id"], "rows": tumours.test_rows[:3]}).raise_for_status()
    assert len(answer.json()["predictions"]) == 3
"""
    run(installed, "-c", code, folder=tmp_path)


# --- rewriting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "rewritten"),
    [
        ("from solver.training import train\n", "from prefsvm.solver.training import train\n"),
        ("def f():\n    from solver import training\n", "def f():\n    from prefsvm.solver import training\n"),
        ("import migrations\n", "from prefsvm import migrations\n"),
        ("import solver.training as t\n", "import prefsvm.solver.training as t\n"),
        ('run("-m", "service.app")\n', 'run("-m", "prefsvm.service.app")\n'),
        ('"é", "solver.estimators:SVM"\n', '"é", "prefsvm.solver.estimators:SVM"\n'),
        ('x = "service.name", "worker"\n', 'x = "service.name", "worker"\n'),
        ('"""service.app"""\nfrom serviceable import x\n', '"""service.app"""\nfrom serviceable import x\n'),
        ("from .solver import x\n", "from .solver import x\n"),
    ],
)
def test_names_are_moved_into_the_package(source: str, rewritten: str) -> None:
    assert hook.rewrite(source.encode(), ROOT).decode() == rewritten


@pytest.mark.parametrize("source", ["import solver.training\n", "import os, solver\n", 'f"service.{part}"\n'])
def test_what_cannot_be_moved_safely_ends_the_build(source: str) -> None:
    with pytest.raises(hook.BuildError, match="line 1"):
        hook.rewrite(source.encode(), ROOT)
