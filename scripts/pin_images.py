"""Write beside each tag of the images that are not ours, in the Dockerfile and the compose file, the digest it has now.

    python3 scripts/pin_images.py [FOLDER]

A tag can be moved to other bytes, a digest cannot. It asks the registry by ``docker buildx imagetools``, so it needs
Docker and the network; run it again to take the updates that a tag has got since. If one cannot be found nothing is
written.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FILES = ("Dockerfile", "docker-compose.yml")
IMAGE = re.compile(
    r"^(FROM |\s+image: )((?!prefsvm:)[a-z0-9./-]+:[\w.-]+)(?:@sha256:[0-9a-f]{64})?(?=\s|$)", re.MULTILINE
)


def digest_of(image: str) -> str:
    """Return ``sha256:…`` of the index of an image, which stands for all processors."""
    command = ["docker", "buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", image]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", found):
        raise ValueError(f"{image}: expected a digest of the registry, found {found[:80]!r}")
    return found


def main(folder: Path) -> None:
    """Pin the images of the files in a folder."""
    texts = {folder / name: (folder / name).read_text() for name in FILES}
    images = sorted({image for text in texts.values() for _, image in IMAGE.findall(text)})
    digests = {image: digest_of(image) for image in images}
    for path, text in texts.items():
        path.write_text(IMAGE.sub(lambda found: f"{found[1]}{found[2]}@{digests[found[2]]}", text))
    for image, digest in digests.items():
        print(f"{image}@{digest}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1])
