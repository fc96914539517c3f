"""What a training may say of the encoder that it wants, beside its name."""

from __future__ import annotations

AUTO_ENCODER = "auto"
"""That of the deployment, if it has one."""
NO_ENCODER = ("words", "none")
"""None: texts are their words."""
INSTALL_ENCODER = (
    "pip install 'prefsvm[encoder]', or, in the folder of a clone, "
    "python3 -m pip --python .venv/bin/python install '.[encoder]'"
)
"""What brings what runs an encoder in a folder."""
