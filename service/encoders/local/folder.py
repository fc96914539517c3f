"""A folder that holds an encoder of texts: an ONNX model, its tokenizer, and what says how the two are used.

Such folders are what sentence-transformers writes and what model hubs hand out. Nothing in them is run but the model
itself, by ONNX Runtime, and nothing is fetched.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from service.encoders.names import AUTO_ENCODER, NO_ENCODER

INSTALLED_FILE: Final = "prefsvm-encoder.json"
"""What `prefsvm encoder install` leaves in the folder: how it is used, and the SHA-256 of what was checked."""
FORM: Final = 1
TOKENIZER_FILE: Final = "tokenizer.json"
MODEL_PLACES: Final = ("model.onnx", "onnx/model.onnx")
POOLINGS: Final = ("mean", "cls", "lasttoken")
MOST_TOKENS: Final = 512
"""Of a text: more than its first 2,000 characters have as a rule, and what most encoders were trained with."""
USUAL_TOKENS: Final = 256
MOST_JSON_BYTES: Final = 1 << 20
MOST_NAME: Final = 200
LICENCE_FILES: Final = ("licen[cs]e*", "LICEN[CS]E*", "Licen[cs]e*", "COPYING*", "NOTICE*")


class EncoderFolderError(ValueError):
    """A folder holds no encoder that could be used; the text says what was wrong and what was expected."""


@dataclass(frozen=True)
class EncoderFolder:
    """An encoder in a folder.

    Attributes
    ----------
    path : Path
        The folder.
    model : str
        The ONNX file, from the folder on.
    name : str
        What trainings and models call it.
    pooling : {"mean", "cls", "lasttoken"}
        What of the vectors of a text's tokens is the vector of the text. Without a meaning where the model gives one.
    prefix : str
        Stands before each text.
    tokens : int
        Of a text that are read at most.
    licence : str or None
        What the folder says of it.
    """

    path: Path
    model: str
    name: str
    pooling: str = "mean"
    prefix: str = ""
    tokens: int = USUAL_TOKENS
    licence: str | None = None

    def files(self) -> list[str]:
        """Return the files that make its vectors what they are, from the folder on."""
        model = self.path / self.model
        beside = sorted(model.parent.glob(f"{model.name}_data*")) + sorted(model.parent.glob(f"{model.name}.data*"))
        return [self.model, *(str(each.relative_to(self.path)) for each in beside), TOKENIZER_FILE]

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each of these files."""
        return {name: _sha256(self.path / name) for name in self.files()}


def read_folder(
    path: Path,
    *,
    model: str | None = None,
    name: str | None = None,
    pooling: str | None = None,
    prefix: str | None = None,
    tokens: int | None = None,
) -> tuple[EncoderFolder, list[str]]:
    """Find out how the encoder in a folder is used.

    Parameters
    ----------
    path : Path
    model, name, pooling, prefix, tokens : optional
        What is said; the folder tells the rest, as sentence-transformers writes it down.

    Returns
    -------
    folder : EncoderFolder
    notes : list of str
        What was assumed because nothing says it.

    Raises
    ------
    EncoderFolderError
    """
    if not path.is_dir():
        raise EncoderFolderError(f"{path} is no folder; expected one with {MODEL_PLACES[0]} and {TOKENIZER_FILE}")
    if not (path / TOKENIZER_FILE).is_file():
        raise EncoderFolderError(
            f"{path} has no {TOKENIZER_FILE}, the tokenizer in the form of Hugging Face's tokenizers"
        )
    notes: list[str] = []
    said = _json(path / "config.json")
    found = EncoderFolder(
        path=path,
        model=_model_file(path, model),
        name=_checked_name(name or path.resolve().name),
        pooling=_pooling(path, pooling, notes),
        prefix=_prefix(path, said, prefix, notes),
        tokens=_tokens(path, said, tokens, notes),
        licence=_licence(path),
    )
    return found, notes


def write_installed(folder: EncoderFolder, dimensions: int) -> None:
    """Note in the folder how it is used, and what was in it when that was checked."""
    noted = {
        "form": FORM,
        "name": folder.name,
        "model": folder.model,
        "pooling": folder.pooling,
        "prefix": folder.prefix,
        "tokens": folder.tokens,
        "licence": folder.licence,
        "dimensions": dimensions,
        "sha256": folder.digests(),
    }
    target = folder.path / INSTALLED_FILE
    written = target.with_name(f"{target.name}.{os.getpid()}")
    written.write_text(json.dumps(noted, indent=2, ensure_ascii=False) + "\n")
    written.replace(target)


def read_installed(path: Path, *, check: bool = True) -> tuple[EncoderFolder, int]:
    """Return what was installed in a folder, and how many numbers its vectors have.

    Parameters
    ----------
    path : Path
    check : bool, default True
        Whether the files are looked at, which takes a second for half a gigabyte.

    Raises
    ------
    EncoderFolderError
        If nothing was, or another file is there by now.
    """
    if not (path / INSTALLED_FILE).is_file():
        raise EncoderFolderError(f"{path} has no {INSTALLED_FILE}: run prefsvm encoder install {path} first")
    noted = _json(path / INSTALLED_FILE)
    digests = noted.get("sha256")
    known = {"name": str, "model": str, "pooling": str, "prefix": str, "tokens": int, "dimensions": int}
    is_whole = noted.get("form") == FORM and all(type(noted.get(key)) is kind for key, kind in known.items())
    if not is_whole or not isinstance(digests, dict) or noted["pooling"] not in POOLINGS:
        raise EncoderFolderError(f"{path / INSTALLED_FILE} is not as this version writes it: install the folder again")
    folder = EncoderFolder(
        path=path,
        model=_model_file(path, noted["model"]),
        name=_checked_name(noted["name"]),
        pooling=noted["pooling"],
        prefix=noted["prefix"],
        tokens=noted["tokens"],
        licence=noted.get("licence"),
    )
    if check:
        now = folder.digests()
        changed = sorted(name for name in {*now, *digests} if now.get(name) != digests.get(name))
        if changed:
            raise EncoderFolderError(
                f"{changed[0]} in {path} is not the file that was installed, so that its vectors may be others: bring "
                f"that back, or run prefsvm encoder install {path} again"
            )
    return folder, int(noted["dimensions"])


def _model_file(path: Path, said: str | None) -> str:
    if said is not None:
        file = (path / said).resolve()
        if not file.is_relative_to(path.resolve()) or not file.is_file():
            raise EncoderFolderError(f"{said} is no file in {path}")
        return said
    for place in MODEL_PLACES:
        if (path / place).is_file():
            return place
    others = sorted(str(each.relative_to(path)) for each in (*path.glob("*.onnx"), *path.glob("onnx/*.onnx")))
    if len(others) == 1:
        return others[0]
    if others:
        raise EncoderFolderError(f"{path} has several models: say --model with one of {', '.join(others)}")
    raise EncoderFolderError(
        f"{path} has no {' and no '.join(MODEL_PLACES)}; sentence-transformers writes one with backend='onnx', and "
        "most hubs offer it beside the other weights"
    )


def _pooling(path: Path, said: str | None, notes: list[str]) -> str:
    if said is None:
        config = _json(path / "1_Pooling/config.json")
        chosen = [key.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens") for key, on in
                  config.items() if key.startswith("pooling_mode_") and on is True]  # fmt: skip
        told = config.get("pooling_mode")
        said = told if isinstance(told, str) else "+".join(chosen)
        if not said:
            notes.append("nothing says how the vectors of its tokens become one: their mean is taken")
            said = "mean"
        if any(module.get("type", "").endswith(".Dense") for module in _modules(path)):
            raise EncoderFolderError(
                f"modules.json in {path} asks for a dense layer behind the pooling, which is not done here; expected "
                "an ONNX model that holds it, and a folder without that module"
            )
    if said not in POOLINGS:
        raise EncoderFolderError(f"the pooling {said!r} is not known here; expected one of {', '.join(POOLINGS)}")
    return said


def _prefix(path: Path, config: Mapping[str, Any], said: str | None, notes: list[str]) -> str:
    if said is None:
        told = _json(path / "config_sentence_transformers.json")
        prompts, default = told.get("prompts"), told.get("default_prompt_name")
        known = prompts if isinstance(prompts, dict) else {}
        if default is not None and isinstance(known.get(default), str):
            said = str(known[default])
        elif re.search(r"(^|[/_-])e5($|[/_-])", f"{config.get('_name_or_path', '')}/{path.resolve().name}"):
            said = "query: "
            notes.append(f"it is called e5: {said!r} is set before each text")
        else:
            said = ""
    if len(said) > MOST_NAME or not said.isprintable():
        raise EncoderFolderError(f"the prefix is no printable text of at most {MOST_NAME} characters")
    return said


def _tokens(path: Path, config: Mapping[str, Any], said: int | None, notes: list[str]) -> int:
    if said is None:
        told = [
            _json(path / "sentence_bert_config.json").get("max_seq_length"),
            _json(path / "tokenizer_config.json").get("model_max_length"),
            config.get("max_position_embeddings"),
        ]
        said = next((each for each in told if type(each) is int and each > 0), None)
        if said is None:
            notes.append(f"nothing says how many tokens it reads: {USUAL_TOKENS} are taken")
            said = USUAL_TOKENS
    if said < 1:
        raise EncoderFolderError(f"a text must have room for a token at least, not for {said}")
    return min(said, MOST_TOKENS)


def _licence(path: Path) -> str | None:
    """Return what the folder says of its licence: the names of files, or a line at the beginning of the README."""
    files = sorted({each.name for pattern in LICENCE_FILES for each in path.glob(pattern) if each.is_file()})
    if files:
        return ", ".join(files[:5])
    readme = path / "README.md"
    if not readme.is_file():
        return None
    with readme.open(errors="replace") as file:
        start = file.read(10_000)
    said = re.search(r"^licen[cs]e:[ \t]*([^\n]{1,100})$", start, re.MULTILINE)
    return None if said is None else said[1].strip()


def _modules(path: Path) -> list[dict[str, Any]]:
    found = _value(path / "modules.json")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _json(path: Path) -> dict[str, Any]:
    found = _value(path)
    return found if isinstance(found, dict) else {}


def _value(path: Path) -> Any:
    """Return what a file in JSON holds; None where there is none."""
    if not path.is_file():
        return None
    if path.stat().st_size > MOST_JSON_BYTES:
        raise EncoderFolderError(f"{path} is larger than {MOST_JSON_BYTES} bytes")
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        raise EncoderFolderError(f"{path} is no JSON") from None


def _checked_name(name: str) -> str:
    if not 0 < len(name) <= MOST_NAME or not name.isprintable() or name in (AUTO_ENCODER, *NO_ENCODER):
        raise EncoderFolderError(f"an encoder cannot be called {name[:MOST_NAME]!r}; say another --name")
    return name


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def renamed(folder: EncoderFolder, name: str | None) -> EncoderFolder:
    """Return the same encoder under the name that the settings say, if they say one."""
    return folder if name is None else replace(folder, name=_checked_name(name))
