"""Fetch the libraries of the pages into ``service/pages/static``, those of their tests into ``tests/ui/vendored``.

``scripts/vendor_pages.py [--check]``.

npm brings a package and checks it; what is kept of it is listed here with its SHA-256, so that everybody who runs this
gets the same bytes. It needs npm, and nobody needs it who installs or builds prefsvm. Licences lie beside the files.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "service" / "pages" / "static"
TESTS = ROOT / "tests" / "ui" / "vendored"


@dataclass(frozen=True)
class Package:
    """A package of npm, and which of its files are kept, each under a name of ours and with its SHA-256."""

    name: str
    version: str
    licence: str
    files: dict[str, tuple[str, str]]
    folder: Path = STATIC


PACKAGES = (
    Package(
        "uplot",
        "1.6.32",
        "MIT",
        {
            "dist/uPlot.iife.min.js": (
                "uPlot.iife.min.js",
                "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
            ),
            "dist/uPlot.min.css": ("uPlot.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
            "LICENSE": ("uPlot.LICENSE.txt", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
        },
    ),
    Package(
        "axe-core",
        "4.14.1",
        "MPL-2.0",
        {
            "axe.min.js": ("axe.min.js", "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"),
            "LICENSE": ("axe.LICENSE.txt", "af175b9d96ee93c21a036152e1b905b0b95304d4ae8c2c921c7609100ba8df7e"),
            "LICENSE-3RD-PARTY.txt": (
                "axe.LICENSE-3RD-PARTY.txt",
                "4f8563870d0fca38bbc3e00b6f670cb7fa9f380ba9f26a7f7d1184a6b18b1653",
            ),
        },
        TESTS,
    ),
)


def fetch(package: Package) -> dict[str, bytes]:
    """Return the files of a package that are kept, by our names."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["npm", "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()[-1]
        with tarfile.open(Path(folder) / packed) as archive:
            found = {}
            for inside, (name, _) in package.files.items():
                file = archive.extractfile(f"package/{inside}")
                if file is None:
                    sys.exit(f"{package.name} has no {inside}")
                found[name] = file.read()
    return found


def wrong(package: Package, files: dict[str, bytes]) -> list[str]:
    """Return the names of the files that are not those that are listed."""
    listed = dict(package.files.values())
    return [name for name, digest in listed.items() if hashlib.sha256(files.get(name, b"")).hexdigest() != digest]


def main() -> None:
    """Fetch, or check what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="fetch nothing: are the files there those that are listed?"
    )
    check = parser.parse_args().check
    for package in PACKAGES:
        names = [name for name, _ in package.files.values()]
        files = {name: (package.folder / name).read_bytes() for name in names} if check else fetch(package)
        differing = wrong(package, files)
        if differing:
            sys.exit(f"{package.name} {package.version}: {', '.join(differing)} are other files than those listed")
        if not check:
            for name, content in files.items():
                (package.folder / name).write_bytes(content)
        print(f"{package.name} {package.version} ({package.licence}): {', '.join(names)}")


if __name__ == "__main__":
    main()
