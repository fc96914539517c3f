"""How HTML is made here of templates: everything is escaped, cut and readable, whatever a template forgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from service import shown_text


def html_templates(folder: Path, filters: Iterable[Callable[..., Any]]) -> Environment:
    """Return the templates of a folder; each filter is called as its function is."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown_text.finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for function in (shown_text.name, shown_text.number, shown_text.percent, shown_text.chance, *filters):
        environment.filters[function.__name__] = function
    return environment
