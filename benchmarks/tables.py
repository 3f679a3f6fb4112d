"""Tables to a model and a test score: `widemargin train` beside scikit-learn's usual pipeline.

    python -m benchmarks.tables [abalone wine covtype made]

Both start from the same two CSV files, in processes of their own and in turn. Ours is two
commands, train and evaluate; scikit-learn's is one script, whose pipeline is what its guide
shows: imputers, StandardScaler, OneHotEncoder, TfidfVectorizer, LinearSVC. Rewrites the table in
docs/tables.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import machine
from benchmarks.analyse import ROOT, in_words, rewrite_all
from benchmarks.sections import apart, table
from widemargin.datasets.folder import DatasetMissing, folder_with

_TEST_PART = 0.25
_MADE_ROWS = 20_000

# The pipeline of scikit-learn's guide; its arguments are the two files, the target, the columns
# of text and those of dates.
SKLEARN = """
import sys, warnings
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

train_file, test_file, target, text, dates = sys.argv[1:]
text, dates = text.split(), dates.split()

def read(path):
    rows = pd.read_csv(path, parse_dates=dates)
    for name in dates:
        rows[name + " days"] = (rows[name] - pd.Timestamp(0)).dt.days
        rows[name + " month"] = rows[name].dt.month.astype("Int64").astype(str)
        rows[name + " weekday"] = rows[name].dt.day_name()
    for name in text:
        rows[name] = rows[name].fillna("")
    for name in rows.columns.difference([target, *text, *dates]):
        if not pd.api.types.is_numeric_dtype(rows[name]) or rows[name].dtype == bool:
            rows[name] = rows[name].astype(object).fillna("missing").astype(str)
    return rows.drop(columns=[target, *dates]), rows[target]

X, y = read(train_file)
numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
categories = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=2)
kinds = X.drop(columns=text).select_dtypes("number").columns
others = X.drop(columns=[*text, *kinds]).columns
features = ColumnTransformer([
    ("numbers", numbers, list(kinds)),
    ("categories", categories, list(others)),
    *((name, TfidfVectorizer(min_df=2), name) for name in text),
])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    model = make_pipeline(features, LinearSVC(random_state=0)).fit(X, y)
print(model.score(*read(test_file)))
"""


@dataclass(frozen=True)
class Task:
    """A table: how it is written as CSV, and what is in it."""

    write: Callable[[Path], list[list[str]]]
    target: str
    files: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    repeats: int = 3


@dataclass(frozen=True)
class Result:
    """One way from CSV to a test score: `seconds` of the processor, in all processes."""

    score: float
    seconds: float
    megabytes: float


def _abalone(folder: Path) -> list[list[str]]:
    """Rings cut into three classes, as the set's own description does."""
    text = gzip.decompress((folder / "ordinal" / "abalone.arff.gz").read_bytes()).decode()
    lines = [line.strip() for line in text.splitlines()]
    # Quoted, as the names hold blanks: @attribute 'Whole weight' real.
    names = [shlex.split(line)[1] for line in lines if line.lower().startswith("@attribute")]
    begin = next(i for i, line in enumerate(lines) if line.lower() == "@data")
    rows = [line.split(",") for line in lines[begin + 1 :] if line and line[0] != "%"]
    for row in rows:
        rings = float(row[-1])
        row[-1] = "young" if rings <= 8 else "middle" if rings <= 10 else "old"
    return [[*names[:-1], "age"], *rows]


def _wine(folder: Path) -> list[list[str]]:
    return _csv(folder / "ordinal" / "winequality-white.csv.gz")


def _covtype(folder: Path) -> list[list[str]]:
    return _csv(folder / "covtype.csv.gz")


def _csv(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.reader(file))


def _made(_: Path) -> list[list[str]]:
    """Strings, dates, gaps and text: reports of faults, and whether a visit was needed."""
    rng = np.random.default_rng(0)
    good = ["works", "fine", "quiet", "again", "restarted", "solved", "reset", "update", "clean"]
    bad = ["smoke", "burnt", "broken", "leaks", "noise", "sparks", "stopped", "cracked", "alarm"]
    plain = ["the", "machine", "at", "our", "site", "was", "running", "when", "it", "today"]
    header = ["opened", "site", "model", "hours", "pressure", "warranty", "report", "visit"]
    rows = [header]
    for _ in range(_MADE_ROWS):
        site, model = int(rng.zipf(1.6)) % 400, int(rng.integers(12))
        day = int(rng.integers(1200))
        hours, pressure = rng.gamma(2.0, 1500.0), rng.normal(6.0, 1.5)
        season = np.sin(2 * np.pi * day / 365.25)
        score = 0.0006 * (hours - 3000) + 0.6 * (model % 3 - 1) + 0.5 * season
        score += 0.4 * (site % 5 - 2) + 0.5 * (pressure < 4) + rng.normal(0, 0.8)
        visit = score > 0.0
        words = [*rng.choice(bad if rng.random() < 0.2 + 0.5 * visit else good, 2)]
        words += [*rng.choice(plain, 8)]
        rng.shuffle(words)
        date = np.datetime64("2021-01-01") + day
        row = [str(date), f"site {site}", f"M{model}", f"{hours:.0f}", f"{pressure:.2f}"]
        row += [str(bool(rng.random() < 0.5)).lower(), " ".join(words)]
        gaps = rng.random(len(row)) < 0.05
        rows.append([*("" if gap else cell for gap, cell in zip(gaps, row)), "ny"[int(visit)]])
    return rows


TASKS = {
    "abalone": Task(_abalone, "age", ("ordinal/abalone.arff.gz",)),
    "wine": Task(_wine, "quality", ("ordinal/winequality-white.csv.gz",)),
    "covtype": Task(_covtype, "Cover_Type", ("covtype.csv.gz",), repeats=1),
    "made": Task(_made, "visit", text=("report",), dates=("opened",)),
}


def data_folder(name: str) -> Path:
    """Return the folder with the files of a task; raises DatasetMissing without it."""
    folder, missing = folder_with(TASKS[name].files)
    if folder is None:
        raise DatasetMissing(missing)
    return folder


def split(rows: list[list[str]], folder: Path) -> tuple[Path, Path]:
    """Write the rows as two CSV files, for training and testing."""
    header, body = rows[0], rows[1:]
    order = np.random.default_rng(0).permutation(len(body))
    n_test = int(_TEST_PART * len(body))
    files = folder / "train.csv", folder / "test.csv"
    for path, chosen in zip(files, (order[n_test:], order[:n_test])):
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *(body[i] for i in chosen)])
    return files


def written(name: str, source: Path, folder: Path) -> tuple[Path, Path, str]:
    """Write the files of a task; return them, and the size of the table in words."""
    rows = TASKS[name].write(source)
    return *split(rows, folder), f"{len(rows) - 1:,} x {len(rows[0]) - 1}"


def timed(command: list[str]) -> tuple[str, float, float]:
    """Run a command; return what it printed, its processor time, and its peak memory in MB."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = usage.ru_utime + usage.ru_stime
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"failed: {command}")
        output.seek(0)
        return output.read().decode(), seconds, usage.ru_maxrss / 1024


def ours(task: Task, train: Path, test: Path) -> Result:
    """Two commands: train and evaluate."""
    command = [sys.executable, "-m", "widemargin"]
    model = str(train.with_name("model.wm"))
    text = [word for name in task.text for word in ("--text", name)]
    trained = timed(
        [*command, "train", str(train), "--target", task.target, *text, "--quiet", "--out", model]
    )
    tested = timed([*command, "evaluate", model, str(test), "--json"])
    score = json.loads(tested[0])["accuracy"]
    return Result(score, trained[1] + tested[1], max(trained[2], tested[2]))


def theirs(task: Task, train: Path, test: Path) -> Result:
    """One script with scikit-learn's pipeline."""
    arguments = [str(train), str(test), task.target, " ".join(task.text), " ".join(task.dates)]
    printed, seconds, megabytes = timed([sys.executable, "-c", SKLEARN, *arguments])
    return Result(float(printed), seconds, megabytes)


def compared(name: str) -> list[str]:
    """Return the row of a table about one task."""
    task = TASKS[name]
    source = data_folder(name) if task.files else Path()
    with tempfile.TemporaryDirectory() as folder:
        # The system counts the memory of this process as its children's, so it stays small.
        train, test, shape = apart(written, name, source, Path(folder))
        ours(task, train, test)  # compiles, and fills caches
        runs = [(ours(task, train, test), theirs(task, train, test)) for _ in range(task.repeats)]
    pairs = list(zip(*runs))  # our results, and theirs
    scores = (f"{100 * results[0].score:.2f}" for results in pairs)
    seconds = (f"{median(result.seconds for result in results):.2f}" for results in pairs)
    memory = (f"{median(result.megabytes for result in results):,.0f}" for results in pairs)
    units = zip((scores, seconds, memory), ("%", "s", "MB"))
    return [name, shape, *(f"{' / '.join(values)} {unit}" for values, unit in units)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chosen", nargs="*", metavar="TABLE", help=", ".join(TASKS))
    parser.add_argument("--print", action="store_true", help="leave the document as it is")
    options = parser.parse_args()
    header = ["table", "rows x columns", "test accuracy", "processor time", "peak memory"]
    rows = []
    for name in options.chosen or TASKS:
        rows.append(compared(name))
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    text = table(header, rows)
    if not options.print:
        page = ROOT / "docs" / "tables.md"
        rewrite_all([page], "tables", f"{text}\n\n{in_words(machine.describe())}")


if __name__ == "__main__":
    main()
