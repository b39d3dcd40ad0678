"""The licences of what the package contains are installed with it."""

import importlib.metadata
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def test_the_licenses_are_in_the_package():
    expected = {"LICENSE", "NOTICE"} | {f"licenses/{path.name}" for path in (ROOT / "licenses").glob("*.txt")}
    assert len(expected) > 2
    files = {}
    for file in importlib.metadata.files("shoal"):
        folder, _, name = file.as_posix().partition(".dist-info/licenses/")
        if name and folder.startswith("shoal-"):
            files[name] = file.read_text()
    assert set(files) == expected
    for name, text in files.items():
        assert text == (ROOT / name).read_text(), name


def test_the_metadata_name_the_licenses():
    metadata = importlib.metadata.metadata("shoal")
    assert "Apache-2.0 WITH LLVM-exception" in metadata["License-Expression"]
    assert "NOTICE" in metadata.get_all("License-File")
