"""The page in a real browser: no console message, no sideways scrolling on a phone, light and dark."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from utilitune.evaluation.html import write_run_report

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "evaluation"))
from finished_run import finished_run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH (apt-get install chromium)"),
]
PHONE = 390
# The frame is the phone: media queries and scrolling go by its width. Everything is unfolded before it is measured.
FRAME = """<!DOCTYPE html><meta charset="utf-8"><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>
<iframe src="{page}" width="{width}" height="1400"></iframe><pre id="found"></pre>
<script>
document.querySelector("iframe").addEventListener("load", event => {{
  const page = event.target.contentDocument;
  page.querySelectorAll("details").forEach(each => {{ each.open = true; }});
  const wide = [...page.body.querySelectorAll("*")].filter(each => each.getBoundingClientRect().right > {width} + 1);
  document.getElementById("found").textContent =
    `width=${{page.documentElement.scrollWidth}} wide=${{wide.slice(0, 5).map(each => each.outerHTML.slice(0, 80))}} ` +
    `sections=${{page.querySelectorAll("section").length}} paper=${{getComputedStyle(page.body).backgroundColor}}`;
}});
</script>"""


def browse(url, *options):
    """Open a page without a screen; return the document and what the console said."""
    command = [
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
        "--virtual-time-budget=10000",
        "--enable-logging=stderr",
        "--window-size=1000,1400",
        *options,
        url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module", params=["plain", "hostile"])
def page(request, tmp_path_factory):
    home = tmp_path_factory.mktemp(request.param)
    folder = finished_run(home / "run", evil=request.param == "hostile")
    return write_run_report(folder, home / "report")["report.html"]


def measure(page, width, *options):
    frame = page.with_name(f"frame-{width}.html")
    frame.write_text(FRAME.format(page=page.name, width=width), encoding="utf-8")
    document, console = browse(frame.as_uri(), "--dump-dom", *options)
    found = re.search(r'<pre id="found">width=(\d+) wide=(.*) sections=(\d+) paper=(.*?)</pre>', document, re.DOTALL)
    assert found, document[-2000:]
    return int(found[1]), found[2], int(found[3]), found[4], console


def test_the_console_stays_empty(page):
    document, console = browse(page.as_uri(), "--dump-dom")
    assert console == []
    assert "<h1" in document


@pytest.mark.parametrize("width", [PHONE, 820, 1280])
def test_no_sideways_scrolling(page, width):
    scroll, wide, sections, _, console = measure(page, width)
    assert console == []
    assert sections > 5
    assert scroll <= width, wide


def test_light_and_dark(page):
    light = measure(page, PHONE, "--blink-settings=preferredColorScheme=1")[3]
    dark = measure(page, PHONE, "--blink-settings=preferredColorScheme=0")[3]
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 24, 31)")


def test_screenshots_are_kept(page):
    kept = Path(os.environ.get("UTILITUNE_ARTIFACTS", page.parent))
    kept.mkdir(parents=True, exist_ok=True)
    name = page.parents[1].name.rstrip("0123456789")
    for scheme, number in (("light", 1), ("dark", 0)):
        picture = kept / f"report-{name}-{scheme}.png"
        browse(page.as_uri(), f"--screenshot={picture}", f"--blink-settings=preferredColorScheme={number}")
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_checks_can_fail(tmp_path):
    """A page that is too wide and breaks its own policy is noticed."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<!DOCTYPE html><meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src "
        "'unsafe-inline'\"><body><script>alert(1)</script><div style='width: 600px'>wide</div>"
    )
    assert browse(page.as_uri(), "--dump-dom")[1]
    assert measure(page, PHONE)[0] >= 600
