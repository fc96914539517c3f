"""Run the steps of the Dockerfile without a container engine: every stage is a folder, every RUN a chroot.

``run_dockerfile.py TARGET --context DIR --base DIR --stages DIR`` leaves the file system of the target in
``STAGES/TARGET`` and prints its configuration as JSON. BASE is a root file system that stands for the image of every
``FROM image``. It needs root. Only what the Dockerfile uses is known; anything else is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

DESCRIPTIVE = {"EXPOSE", "HEALTHCHECK", "CMD", "STOPSIGNAL", "LABEL"}


@dataclass
class Instruction:
    """One instruction: its name, the rest of its line, and the line of the file where it begins."""

    name: str
    rest: str
    line: int


@dataclass
class Stage:
    """``FROM image AS name`` and the instructions that follow."""

    image: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)


@dataclass
class Config:
    """What an image says about the processes that run in it."""

    environment: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = "0:0"
    command: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)


def parse(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile, in order."""
    stages: list[Stage] = []
    pending, begun = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#") or not (line.strip() or pending):
            continue
        begun = begun if pending else number
        pending += line.strip()
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        name, _, rest = pending.partition(" ")
        pending = ""
        if name == "FROM":
            match = re.fullmatch(r"(\S+) AS (\S+)", rest.strip())
            if match is None:
                raise ValueError(f"Dockerfile line {begun}: expected FROM image AS name, found {rest!r}")
            stages.append(Stage(match[1], match[2]))
        elif not stages:
            raise ValueError(f"Dockerfile line {begun}: {name} before the first FROM")
        else:
            stages[-1].instructions.append(Instruction(name, rest.strip(), begun))
    return stages


def exec_form(rest: str) -> list[str]:
    """Return the words of an exec form, ``["python", "-m", …]``."""
    words = json.loads(rest)
    if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
        raise ValueError(f"expected a JSON list of words, found {rest!r}")
    return words


def _substitute(text: str, variables: dict[str, str]) -> str:
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda match: variables.get(match[1] or match[2], ""), text)


def ignored(path: str, patterns: list[str]) -> bool:
    """Whether ``.dockerignore`` keeps a file of the context from the builder: the last pattern that fits decides."""
    parents = ["/".join(path.split("/")[: depth + 1]) for depth in range(path.count("/") + 1)]
    result = False
    for pattern in patterns:
        keep = pattern.startswith("!")
        body = pattern.lstrip("!").strip("/")
        anywhere = body.removeprefix("**/")
        fits = any(
            fnmatch(parent, body) if body == anywhere else fnmatch(parent.rsplit("/", 1)[-1], anywhere)
            for parent in parents
        )
        if fits:
            result = not keep
    return result


def read_ignore(text: str) -> list[str]:
    """Return the patterns of a ``.dockerignore`` file."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


class Builder:
    """Builds stages on demand, each once."""

    def __init__(self, stages: list[Stage], context: Path, base: Path, folder: Path, arguments: dict[str, str]) -> None:
        self.stages = {stage.name: stage for stage in stages}
        self.context = context
        self.base = base
        self.folder = folder
        self.arguments = arguments
        self.built: dict[str, Config] = {}

    def build(self, name: str) -> Config:
        """Build a stage and all it needs."""
        if name in self.built:
            return self.built[name]
        stage = self.stages[name]
        parent = self.build(stage.image) if stage.image in self.stages else Config()
        source = self.folder / stage.image if stage.image in self.stages else self.base
        root = self.folder / name
        subprocess.run(["cp", "--archive", "--reflink=auto", source, root], check=True)
        config = Config(dict(parent.environment), parent.directory, parent.user, parent.command, parent.healthcheck)
        variables: dict[str, str] = {}
        for instruction in stage.instructions:
            print(f"[{name}] {instruction.name} {instruction.rest[:110]}", file=sys.stderr, flush=True)
            self._step(instruction, root, config, variables)
        self.built[name] = config
        return config

    def _step(self, instruction: Instruction, root: Path, config: Config, variables: dict[str, str]) -> None:
        known = {**variables, **config.environment}
        rest = instruction.rest
        match instruction.name:
            case "ARG":
                name, _, default = rest.partition("=")
                variables[name] = self.arguments.get(name, default)
            case "ENV":
                pairs = [word.partition("=") for word in shlex.split(rest)]
                config.environment.update({name: _substitute(value, known) for name, _, value in pairs})
            case "WORKDIR":
                config.directory = os.path.join(config.directory, _substitute(rest, known))
                (root / config.directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "USER":
                config.user = rest
            case "COPY":
                self._copy(shlex.split(_substitute(rest, known)), root, config)
            case "RUN":
                self._run(rest, root, config, variables)
            case "CMD":
                config.command = exec_form(rest)
            case "HEALTHCHECK":
                config.healthcheck = exec_form(rest.partition("CMD ")[2])
            case name if name not in DESCRIPTIVE:
                raise ValueError(f"Dockerfile line {instruction.line}: {name} is not known here")

    def _copy(self, words: list[str], root: Path, config: Config) -> None:
        origin = self.context
        if words[0].startswith("--from="):
            name = words.pop(0).removeprefix("--from=")
            self.build(name)
            origin = self.folder / name
        *sources, target = words
        into = root / os.path.join(config.directory, target).lstrip("/")
        patterns = read_ignore((self.context / ".dockerignore").read_text()) if origin == self.context else []

        def left_out(folder: str, names: list[str]) -> set[str]:
            where = os.path.relpath(folder, origin)
            return {name for name in names if ignored(os.path.normpath(f"{where}/{name}"), patterns)}

        for source in sources:
            found = origin / source.lstrip("/")
            if ignored(source, patterns) or not found.exists():
                raise ValueError(f"COPY {source}: not in the build context")
            if found.is_dir():
                # A venv is full of links; they are copied as links.
                shutil.copytree(found, into, symlinks=True, dirs_exist_ok=True, ignore=left_out if patterns else None)
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, into)

    def _run(self, command: str, root: Path, config: Config, variables: dict[str, str]) -> None:
        # The caller's environment holds what this machine needs to reach its package index.
        environment = {**os.environ, **variables, **config.environment}
        inside = f"cd {shlex.quote(config.directory)} && {command}"
        chroot = ["chroot", f"--userspec={config.user}", str(root), "/bin/sh", "-c", inside]
        ended = subprocess.run(
            chroot,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode != 0:
            raise SystemExit(f"ended with {ended.returncode}:\n{ended.stdout[-4000:]}")


def main() -> None:
    """Build the target that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--context", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--stages", type=Path, required=True)
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    stages = parse((options.context / "Dockerfile").read_text())
    arguments = dict(pair.split("=", 1) for pair in options.build_arg)
    config = Builder(stages, options.context, options.base, options.stages, arguments).build(options.target)
    print(json.dumps(vars(config)))


if __name__ == "__main__":
    main()
