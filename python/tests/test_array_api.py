"""The conformance suite of the Array API standard, where SHOAL_ARRAY_API_TESTS names a checkout of it (HACKING.md)."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

SUITE = os.environ.get("SHOAL_ARRAY_API_TESTS")
PASSING = 1265  # It may only rise.


def listed():
    """The tests that do not pass: each line names one and, after two blanks and #, why."""
    lines = Path(__file__).with_name("array_api_skips.txt").read_text().splitlines()
    entries = [re.fullmatch(r"(array_api_tests/\S.*?)  # (\S.*)", line) for line in lines if line]
    assert all(entries), [line for line, entry in zip(filter(None, lines), entries) if not entry]
    return [entry[1] for entry in entries]


def test_the_list_names_reasons():
    names = listed()
    assert len(names) == len(set(names)) > 0


@pytest.mark.skipif(not SUITE, reason="SHOAL_ARRAY_API_TESTS names no checkout of data-apis/array-api-tests")
def test_conformance(tmp_path):
    skips, report = tmp_path / "skips.txt", tmp_path / "report.xml"
    skips.write_text("".join(name + "\n" for name in listed()))
    # A few examples of each: most of the time goes into programs for their shapes.
    command = (
        f"-m pytest -q -p no:cacheprovider --derandomize --disable-deadline --max-examples 15 --disable-extension fft "
        f"--skips-file {skips} --junitxml {report} array_api_tests"
    )
    environment = os.environ | {"ARRAY_API_TESTS_MODULE": "shoal.numpy", "JAX_ENABLE_X64": "1"}
    done = subprocess.run(
        [sys.executable, *command.split()], cwd=SUITE, env=environment, capture_output=True, text=True, timeout=1000
    )
    text = done.stdout[-20000:] + done.stderr[-2000:]
    assert done.returncode == 0, text
    assert "ids in skips file don't match" not in done.stdout, f"something is listed that does not exist:\n{text}"
    suite = ElementTree.parse(report).getroot().find("testsuite")
    passing = int(suite.get("tests")) - int(suite.get("skipped"))
    assert passing >= PASSING, text
