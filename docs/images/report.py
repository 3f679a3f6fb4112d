"""Make report.png, the picture of a report in the documentation: needs playwright and Chromium."""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

from widemargin import LinearSVC

data = load_breast_cancer()
X, X_test, y, y_test = train_test_split(
    scale(data.data), data.target_names[data.target], random_state=0
)
model = LinearSVC(C=0.1, probability=True, random_state=0).fit(X, y)

page = Path(tempfile.mkdtemp()) / "report.html"
model.report(page, X_test, y_test, feature_names=data.feature_names)
size = {"width": 1000, "height": 900}
with sync_playwright() as engine:
    browser = engine.chromium.launch(
        executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
    )
    tab = browser.new_page(viewport=size, color_scheme="light")
    tab.goto(page.as_uri())
    tab.screenshot(path=Path(__file__).with_name("report.png"))
    browser.close()
