"""The times that the README speaks of: from a clone to the first model, on this machine, with nothing compiled.

    python -P benchmarks/first_day.py

Copies the repository into a temporary folder, installs it there (from pip's cache, where it has one), starts the
stack, pastes the README's three recipes, and trains once more. Writes `benchmarks/results/first_day.json`; let nothing
else run beside it. Which sentences these figures are in: README, "Two commands".
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks/results/first_day.json"
LEFT_OUT = (".venv", ".git", "prefsvm-data", "__pycache__", "*.nbi", "*.nbc", ".*_cache", ".hypothesis")
URL = "http://127.0.0.1:8137"


def timed(what: Callable[[], object]) -> float:
    """Seconds that something takes."""
    begun = time.monotonic()
    what()
    return round(time.monotonic() - begun, 1)


def recipes() -> list[str]:
    """The ``bash`` blocks of the README's recipes, behind the one that says where the service is."""
    part = re.search(r"^## Three recipes\n(.*?)^## ", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    assert part
    return re.findall(r"^```bash\n(.*?)^```", part[1], flags=re.MULTILINE | re.DOTALL)[1:]


def main() -> None:
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="prefsvm-first-day-") as folder:
        clone = Path(folder) / "prefsvm"
        shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*LEFT_OUT))
        environment = {**os.environ, "PREFSVM_URL": URL, "PATH": f"{clone / '.venv/bin'}:{os.environ['PATH']}"}

        def shell(script: str) -> None:
            subprocess.run(["bash", "-euc", script], cwd=clone, env=environment, check=True, stdout=subprocess.DEVNULL)

        seconds["install"] = timed(lambda: shell("make .venv/local"))
        serving = subprocess.Popen(
            [".venv/bin/prefsvm", "serve", "--port", URL.rpartition(":")[2]],
            cwd=clone,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert serving.stdout
            begun = time.monotonic()
            for line in serving.stdout:
                for said, name in (("answers after", "serve_answers"), ("ready after", "serve_ready")):
                    if said in line:
                        seconds[name] = round(time.monotonic() - begun, 1)
                if "ready after" in line:
                    break
            for number, block in enumerate(recipes(), start=1):
                name = "first_recipe_with_compiling" if number == 1 else f"recipe_{number}"
                seconds[name] = timed(lambda block=block: shell(block))
            again = re.search(r"^prefsvm train messages.*$", recipes()[-1], flags=re.MULTILINE)
            assert again
            seconds["train_again"] = timed(lambda: shell(again[0]))
        finally:
            serving.send_signal(signal.SIGINT)
            serving.wait(60)
    found = {"machine": f"{os.cpu_count()} processors", "python": sys.version.split()[0], "seconds": seconds}
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
