"""The documentation site works without a server."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from browser import NEEDS_CHROMIUM, browser

SEARCH = """(() => {
  document.querySelector("[data-md-toggle=search]").click();
  const box = document.querySelector(".md-search__input");
  box.focus();
  box.value = "counterexample";
  box.dispatchEvent(new Event("keyup", {bubbles: true}));
})()"""
FOUND = "[...document.querySelectorAll('.md-search-result__link')].map((link) => link.pathname)"


@NEEDS_CHROMIUM
def test_a_site_on_a_disk_can_be_searched(tmp_path: Path) -> None:
    pytest.importorskip("material")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-d", tmp_path], check=True)
    with browser() as opened:
        for page in ("index.html", "experiments/results/suite/results.html"):
            opened.open(tmp_path / page)
            opened.value(SEARCH)
            deadline = time.monotonic() + 20
            while not (found := opened.value(FOUND)) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert any(path.startswith(f"{tmp_path}/machines.html") for path in found), page
            assert not opened.complaints()
