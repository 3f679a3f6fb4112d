"""From text to a folder of rows: the same rows, in little memory, whole or not at all."""

import gc
import gzip
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from data.on_disk import assert_same, read_back
from hypothesis import given
from hypothesis import strategies as st

from widemargin.data.blocks import Sizes
from widemargin.data.convert import convert
from widemargin.data.disk import open_rows
from widemargin.data.formats import ShardError
from widemargin.data.svmlight import SvmlightError, read_svmlight

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
text_rows = st.lists(
    st.tuples(
        st.integers(-3, 3) | finite,
        st.dictionaries(st.integers(1, 2**31 - 1) | st.integers(1, 9), finite, max_size=8),
    ),
    min_size=1,
    max_size=30,
)


def as_text(rows, qid=False):
    lines = []
    for number, (label, row) in enumerate(rows):
        group = [f"qid:{number // 3}"] if qid else []
        lines.append(" ".join([repr(label), *group, *(f"{j}:{row[j]!r}" for j in sorted(row))]))
    return ("\n".join(lines) + "\n").encode()


@given(text_rows, st.booleans(), st.sampled_from(["arrow", "parquet"]), st.integers(1, 500))
def test_the_same_rows_as_in_memory(tmp_path_factory, rows, qid, format, block_bytes):
    folder = tmp_path_factory.mktemp("convert")
    (folder / "text").write_bytes(as_text(rows, qid))
    expected = read_svmlight(folder / "text")
    sizes = Sizes(block_bytes)
    manifest = convert(folder / "text", folder / "rows", format=format, sizes=sizes)
    rows = open_rows(folder / "rows", sizes=sizes)
    assert_same(read_back(rows), expected.X)
    np.testing.assert_array_equal(rows.labels, expected.y)
    assert (rows.qid is None) == (not qid)
    if qid:
        np.testing.assert_array_equal(rows.qid, expected.qid)
    assert (manifest.n_rows, manifest.n_features) == expected.X.shape
    assert manifest.n_entries == expected.X.nnz


def test_progress_counts_the_bytes_read(tmp_path):
    text = b"1 1:1 2:0.25\n" * 1_000_000
    (tmp_path / "text.gz").write_bytes(gzip.compress(text, 1))
    seen = []
    convert(tmp_path / "text.gz", tmp_path / "rows", progress=seen.append)
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == (tmp_path / "text.gz").stat().st_size


@pytest.mark.parametrize("good_lines", [0, 3, 500_000])
@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_bad_lines_leave_nothing(tmp_path, good_lines, format, capfd):
    (tmp_path / "text").write_bytes(b"1 1:1 2:0.25\n" * good_lines + b"1 1:x\n")
    with pytest.raises(SvmlightError, match=rf"text, line {good_lines + 1}: value in '1:x'"):
        convert(tmp_path / "text", tmp_path / "rows", format=format)
    gc.collect()  # an abandoned writer of Arrow's should have no complaints
    assert capfd.readouterr().err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_source_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "text", tmp_path / "rows")
    assert not list(tmp_path.iterdir())


# --- in processes of their own -----------------------------------------------------------------


def run(code, *arguments, **options):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_killed_halfway(tmp_path):
    """Nobody takes for whole what was left by a process that could not clean up."""
    code = (
        "import sys\n"
        "from widemargin.data.blocks import Sizes\n"
        "from widemargin.data.convert import convert\n"
        "convert('-', sys.argv[1], sizes=Sizes(100_000, 20_000))\n"
    )
    command = [sys.executable, "-c", code, tmp_path / "rows"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    text = b"1 1:1 2:0.25 3:0.5 7:3.25\n"
    process.stdin.write(text * 1_000_000)  # and the text goes on, for all it knows
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not (tmp_path / "rows" / "part-00001.arrow").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.stdin.close()
    process.wait()
    with pytest.raises(ShardError, match=r"rows: has parts but no widemargin\.json"):
        open_rows(tmp_path / "rows")
    (tmp_path / "text").write_bytes(text * 1000)
    with pytest.raises(FileExistsError, match="not empty"):
        convert(tmp_path / "text", tmp_path / "rows")
    convert(tmp_path / "text", tmp_path / "again")
    assert open_rows(tmp_path / "again").n_rows == 1000


@pytest.mark.skipif(not hasattr(os, "setsid"), reason="limits of POSIX")
def test_a_file_system_that_takes_no_more(tmp_path):
    code = (
        "import resource, sys\n"
        "from widemargin.data.convert import convert\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "convert(sys.argv[1], sys.argv[2])\n"
    )
    rng = np.random.default_rng(0)
    lines = [f"1 1:{x} 2:{y}" for x, y in rng.random((50_000, 2))]
    (tmp_path / "text").write_text("\n".join(lines))
    done = run(code, tmp_path / "text", tmp_path / "rows")
    assert "OSError: [Errno 27] File too large" in done.stderr
    assert not (tmp_path / "rows").exists()


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux tells the peak")
@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_memory_does_not_grow_with_the_data(tmp_path, format):
    """200 MB of text, which hold 130 MB of rows, in far less beyond what imports take."""
    rng = np.random.default_rng(0)
    lines = "".join(
        "1 " + " ".join(f"{j}:{v:.6f}" for j, v in enumerate(row, start=1)) + "\n"
        for row in rng.random((1000, 100))
    ).encode()
    with open(tmp_path / "text", "wb") as file:
        for _ in range(200_000_000 // len(lines)):
            file.write(lines)
    work = {
        "convert": f"convert(source, source + '.{format}', format={format!r})",
        "a pass": f"open_rows(source + '.{format}').scores(np.ones(100))",
    }
    if format == "arrow":
        work["a pass over text"] = "open_rows(source).combine(np.ones(200_000_000 // size * 1000))"
    for name, statement in work.items():
        done = run(
            "import re, sys\n"
            "import numpy as np\n"
            "from widemargin.data.convert import convert\n"
            "from widemargin.data.disk import open_rows\n"
            "source, size = sys.argv[1], int(sys.argv[2])\n"
            "open(source + '.one', 'wb').write(b'1 100:1\\n')\n"
            f"convert(source + '.one', source + '.' + {name!r})\n"
            f"rows = open_rows(source + '.' + {name!r})\n"
            "rows.combine(rows.scores(np.ones(100)))\n"  # compiled and loaded
            "def peak():\n"
            "    return int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])\n"
            "before = peak()\n"
            f"{statement}\n"
            "print((peak() - before) // 1024)\n",
            tmp_path / "text",
            len(lines),
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) < {"arrow": 112, "parquet": 160}[format], name
