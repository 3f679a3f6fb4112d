"""`widemargin convert`, and the other commands on rows that stay on disk."""

import contextlib
import gzip
import os
import signal
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli.commands import refuse, strict_json, succeed
from data.on_disk import as_table, assert_same, read_back
from processes import COMMAND_LINE, PATIENCE, interruptible

from widemargin import open_rows
from widemargin.data import shards
from widemargin.data.svmlight import read_svmlight
from widemargin.model_io import load_model


def write_text(path, n=200, qid=False, seed=0):
    """A two-class problem in svmlight text, with three grades where it has groups."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        x = rng.normal(size=5)
        side = x[0] - x[3] + 0.3 * rng.normal()
        label = f"{int(np.clip(side + 1, 0, 2))} qid:{i // 20}" if qid else f"{np.sign(side):.0f}"
        lines.append(label + "".join(f" {j}:{v:.4f}" for j, v in enumerate(x, start=1)))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "rows.svm")


@pytest.fixture
def folder(text, tmp_path):
    succeed("convert", text, tmp_path / "rows")
    return tmp_path / "rows"


class TestConvert:
    @pytest.mark.parametrize("format", ["arrow", "parquet"])
    def test_report(self, text, tmp_path, format):
        folder = tmp_path / "rows"
        report = strict_json(succeed("convert", text, folder, "--format", format, "--json"))
        expected = {"format": format, "rows": 200, "features": 5, "entries": 1000, "files": 1}
        assert report.items() >= expected.items()
        assert report["bytes_read"] == text.stat().st_size
        assert report["bytes_written"] == (folder / f"part-00000.{format}").stat().st_size
        assert_same(read_back(open_rows(folder)), read_svmlight(text).X)

    def test_in_words(self, text, tmp_path):
        result = succeed("convert", text, tmp_path / "rows")
        assert "200 rows, 5 features, 1,000 nonzeros" in result.stdout
        assert "MB/s" in result.stdout
        assert str(tmp_path / "rows") in result.stdout
        assert result.stderr == ""

    def test_standard_input_and_compression(self, text, tmp_path):
        for name, stdin in {"a": text.read_bytes(), "b": gzip.compress(text.read_bytes())}.items():
            succeed("convert", "-", tmp_path / name, stdin=stdin)
            assert_same(read_back(open_rows(tmp_path / name)), read_svmlight(text).X)

    def test_bad_input(self, text, tmp_path, folder):
        out = tmp_path / "out"
        refuse("convert", tmp_path / "none", out, naming=[tmp_path / "none", "No such file"])
        refuse("convert", tmp_path, out, naming=[tmp_path, "directory"])
        refuse("convert", "-", out, stdin="1 1:1\n1 0:1\n", naming=["standard input, line 2"])
        refuse("convert", "-", out, stdin="", naming=["standard input: no rows"])
        refuse("convert", text, folder, naming=[folder, "not empty"])
        refuse("convert", text, text, naming=[text, "File exists"])
        refuse("convert", text, out / "deeper", naming=[out / "deeper", "No such file"])
        refuse("convert", text, out, "--format", "csv", naming=["csv"])
        assert not out.exists()

    def test_full_disk(self, text, tmp_path, monkeypatch):
        def full_disk(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full_disk)
        refuse("convert", text, tmp_path / "out", naming=[tmp_path / "out", "No space"])
        assert not (tmp_path / "out").exists()

    def test_a_conversion_that_was_killed(self, text, folder):
        (folder / "widemargin.json").unlink()
        refuse("convert", text, folder, naming=[folder, "not empty", "unfinished conversion"])

    def test_ctrl_c(self, tmp_path):
        process = interruptible(
            [*COMMAND_LINE, "convert", "-", tmp_path / "out"], stdin=subprocess.PIPE
        )
        # More than one piece of text: once all is written, the first has been handed on.
        process.stdin.write(b"1 1:1 2:0.5\n" * 1_000_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert stderr.strip() == b"widemargin: interrupted"
        assert not (tmp_path / "out").exists()

    def test_progress_is_for_terminals(self, text, tmp_path):
        pty = pytest.importorskip("pty")
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND_LINE, "convert", text, tmp_path / "out"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
        )
        stdout, _ = process.communicate(timeout=PATIENCE)
        os.close(theirs)
        shown = os.read(ours, 100_000)
        os.close(ours)
        assert process.returncode == 0
        assert b"converting" in shown
        assert b"\x1b" not in stdout


class TestRefusals:
    @pytest.mark.parametrize("command", ["train", "predict", "evaluate", "certify"])
    def test_data_that_is_not_whole(self, command, text, folder, tmp_path):
        model = tmp_path / "m.wm"
        succeed("train", text, "--out", model)
        arguments = {"train": [folder, "--out", model]}.get(command, [model, folder])
        part = folder / "part-00000.arrow"
        whole = part.read_bytes()
        middle = len(whole) // 2
        part.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        assert refuse(command, *arguments, naming=[part, "damaged"]).count(str(folder)) == 1
        part.write_bytes(whole[:-1])
        assert refuse(command, *arguments, naming=[part]).count(str(folder)) == 1
        part.unlink()
        refuse(command, *arguments, naming=[part, "No such file"])
        part.write_bytes(whole)
        (folder / "widemargin.json").unlink()
        refuse(command, *arguments, naming=[folder, "no widemargin.json"])

    def test_where_a_checkpoint_cannot_be(self, folder, tmp_path):
        """Known before any work, and named."""
        out = tmp_path / "model"
        train = ("train", folder, "--out", out, "--checkpoint")
        refuse(*train, tmp_path / "none" / "run", naming=["none/run: there is no directory"])
        refuse(*train, out, naming=[out, "named twice"])
        refuse(*train, tmp_path, naming=[tmp_path, "is a directory"])
        refuse(*train, tmp_path / "rows.svm", naming=["rows.svm: not a checkpoint"])
        refuse(*train, tmp_path / ("n" * 300), naming=["nnn: File name too long"])
        assert not out.exists()

    def test_a_full_disk_ends_checkpoints_and_not_the_training(
        self, folder, tmp_path, monkeypatch
    ):
        @contextlib.contextmanager
        def full_disk(path):
            raise OSError(28, "No space left on device", os.fspath(path))
            yield

        monkeypatch.setattr("widemargin.estimators.checkpoint.atomic_write", full_disk)
        out = tmp_path / "model"
        done = succeed("train", folder, "--out", out, "--checkpoint", tmp_path / "run", "--quiet")
        assert f"warning: {tmp_path / 'run'}: No space left on device" in done.stderr
        assert load_model(out).certificate_.relative_gap <= 1e-3

    def test_options_for_rows_on_disk(self, text, folder, tmp_path):
        out = ("--out", tmp_path / "model")
        for options in (
            ("--memory-budget", "5MB"),
            ("--checkpoint", tmp_path / "run"),
            ("--solver", "stream"),
        ):
            words = [text, " ".join(map(str, options)), "is for rows on disk", "convert"]
            refuse("train", text, *out, *options, naming=words)
        refuse("tune", text, "--solver", "bm", naming=[text, "--solver bm is for rows on disk"])
        refuse(
            "train", folder, *out, "--memory-budget", "much", naming=["--memory-budget", "512MB"]
        )

    def test_without_labels(self, text, tmp_path):
        pq.write_table(as_table(read_svmlight(text).X), tmp_path / "rows.parquet")
        refuse(
            "train",
            tmp_path / "rows.parquet",
            "--out",
            tmp_path / "m",
            naming=["rows.parquet", "no column label"],
        )


class TestSameAsInMemory:
    """Whether rows are in memory or on disk changes speed, and nothing else."""

    @pytest.fixture(params=["arrow", "parquet"])
    def stored(self, text, tmp_path, request):
        succeed("convert", text, tmp_path / "stored", "--format", request.param)
        return tmp_path / "stored"

    def test_train_and_certify(self, text, stored, tmp_path):
        trained = strict_json(succeed("train", stored, "--out", tmp_path / "m", "--json"))
        assert trained["certificate"]["relative_gap"] <= 1e-3
        assert (trained["rows"], trained["features"]) == (200, 5)
        for data in (text, stored):
            report = strict_json(succeed("certify", tmp_path / "m", data, "--json"))
            assert report["agrees_with_model"] is True

    def test_predict_and_evaluate(self, text, stored, tmp_path):
        succeed("train", text, "--out", tmp_path / "m")
        for command in ("predict", "evaluate"):
            answers = {succeed(command, tmp_path / "m", d).stdout for d in (text, stored)}
            assert len(answers) == 1

    def test_other_numbers_of_features(self, text, tmp_path):
        succeed("train", text, "--out", tmp_path / "m")
        for name, line in {"fewer": "1 1:1 2:-2\n", "more": "1 1:1 2:-2 9:1e6\n"}.items():
            succeed("convert", "-", tmp_path / name, stdin=line)
        answers = {
            succeed("predict", tmp_path / "m", tmp_path / name, "--scores").stdout
            for name in ("fewer", "more")
        }
        assert len(answers) == 1

    def test_predict_without_labels(self, text, tmp_path):
        succeed("train", text, "--out", tmp_path / "m")
        pq.write_table(as_table(read_svmlight(text).X), tmp_path / "rows.parquet")
        answers = {
            succeed("predict", tmp_path / "m", data).stdout
            for data in (text, tmp_path / "rows.parquet")
        }
        assert len(answers) == 1

    def test_ranking(self, tmp_path):
        text = write_text(tmp_path / "queries.svm", qid=True)
        succeed("convert", text, tmp_path / "queries")
        arguments = ("--task", "rank", "--out", tmp_path / "m")
        on_disk = strict_json(succeed("train", tmp_path / "queries", *arguments, "--json"))
        in_memory = strict_json(succeed("train", text, *arguments, "--json"))
        assert on_disk["groups"] == in_memory["groups"] == 10
        primal = in_memory["certificate"]["primal"]
        assert on_disk["certificate"]["primal"] == pytest.approx(primal, rel=2e-3)

    def test_weights_count(self, text, tmp_path):
        data = read_svmlight(text)
        for name, weight in {"some": np.arange(200) % 2, "all": np.ones(200)}.items():
            with shards.ShardWriter(tmp_path / name) as writer:
                writer.add(data.X, data.y, weight=weight)
            succeed("train", tmp_path / name, "--out", tmp_path / f"{name}.wm", "--tol", "1e-6")
        some, all_ = (load_model(tmp_path / f"{name}.wm").coef_ for name in ("some", "all"))
        assert not np.allclose(some, all_, rtol=1e-3)
        report = strict_json(succeed("certify", tmp_path / "some.wm", tmp_path / "some", "--json"))
        assert report["agrees_with_model"] is True
