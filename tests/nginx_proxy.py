"""A real nginx with the production configuration, in front of whatever listens on a port."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CONFIGURATION = Path(__file__).parents[1] / "deploy/nginx.conf"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(2400):  # a busy machine takes 20 s to start Python with what the services import
        assert server.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
    pytest.fail("the server did not start")


@contextmanager
def nginx_before(upstream_port: int, folder: Path) -> Iterator[int]:
    """Run nginx, or skip the test where it is not installed; yields its port."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    folder.chmod(0o755)
    for parent in folder.parents[:2]:
        parent.chmod(0o711)  # nginx started by root works as another user
    port = free_port()
    text = CONFIGURATION.read_text()
    for old, new in (
        ("http://api:8000", f"http://127.0.0.1:{upstream_port}"),
        ("listen 8080", f"listen 127.0.0.1:{port}"),
        ("/tmp/", f"{folder}/"),  # noqa: S108
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text)
    server = subprocess.Popen(
        [nginx, "-c", folder / "nginx.conf", "-g", "daemon off;"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for_port(port, server)
        yield port
    finally:
        server.terminate()
        server.wait(40)
