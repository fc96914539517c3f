"""Each kind of jobs that the service puts into the queue is one that workers know."""

from __future__ import annotations

import ast
from pathlib import Path

from service.db.tables import JobRow
from worker.kinds.registry import KINDS

SERVICE = Path(__file__).parents[3] / "service"


def test_workers_know_what_the_service_queues() -> None:
    trees = [ast.parse(path.read_text()) for path in SERVICE.glob("*/*.py")]
    named = {
        statement.value.value
        for tree in trees
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "KIND"
        and isinstance(statement.value, ast.Constant)
    }
    assert {"batch", "audit"} <= named
    default = JobRow.__table__.columns["kind"].server_default
    assert {*named, default.arg} <= set(KINDS)  # type: ignore[union-attr]
