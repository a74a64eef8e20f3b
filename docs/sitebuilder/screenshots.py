"""Screenshots of the site for the README: run `python -m sitebuilder.screenshots` in `docs/`.

The program needs the built site, Playwright and Chromium. If Chromium is not on the PATH as
`chromium`, set CHROMIUM to its path.
"""

import io
import os
import shutil
import sys

from PIL import Image

from .names import ROOT

SITE = ROOT / "docs" / "_build" / "html"
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT, SHOWN = 1200, 760, 960

# Picture -> (page, distance in pixels by which the page is scrolled down).
PAGES = {
    "lessons": ("lessons/index.html", 0),
    "lesson": ("lessons/09_why_sqrt_d.html", 1560),
    "stepper": ("stepper_gpt.html#step=19", 0),
    "where_is_it": ("where_is_it.html", 0),
    "walk": ("walk.html", 2330),
    "api": ("api/files/ops.softmax.html", 0),
}


def saved(png, path):
    """Scale a picture to the width SHOWN, and write it with as many colors as fit into 150 kB."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image = image.resize((SHOWN, image.height * SHOWN // image.width), Image.Resampling.LANCZOS)
    rare_ones_too = Image.Quantize.MAXCOVERAGE
    for colors in (256, 128, 64):
        small = image.quantize(colors, rare_ones_too, dither=Image.Dither.NONE)
        small.save(path, optimize=True)
        if path.stat().st_size < 150_000:
            break
    print(f"{path.relative_to(ROOT)} {path.stat().st_size // 1000} kB")


def main(names):
    """Take the named screenshots, or all of them if `names` is empty."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in names or PAGES:
            page, down = PAGES[name]
            file, _, anchor = page.partition("#")
            tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            tab.goto((SITE / file).as_uri() + (f"#{anchor}" if anchor else ""))
            tab.evaluate(f"window.scrollTo({{top: {down}, behavior: 'instant'}})")
            tab.wait_for_timeout(500)
            saved(tab.screenshot(), IMAGES / f"{name}.png")
            tab.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
