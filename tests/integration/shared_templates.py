"""Templates of pages that are compiled once in a process, and not by each application anew.

After its first page an application has Jinja compile all templates: half of the processor time of the tests of pages.
The code that Jinja makes of a template is the same in each application, as it follows from the template and from how
`service.html_templates` reads it. Each application loads, links and renders its templates itself.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from service.pages import room

_html_templates = room.html_templates
_compiled: dict[tuple[str, str], CodeType] = {}


class _OfThisProcess(BytecodeCache):
    """Code by the name and path of a template, and by what stands in it."""

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = _compiled.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        _compiled[bucket.key, bucket.checksum] = bucket.code


def _sharing(*given: Any) -> Environment:
    environment = _html_templates(*given)
    environment.bytecode_cache = _OfThisProcess()
    return environment


room.html_templates = _sharing
