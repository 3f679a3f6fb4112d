"""Files that appear whole or not at all: their permissions, and what killed writers leave."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from widemargin.atomic import atomic_write

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other permissions, locks, signals")

KILLED_WHILE_WRITING = """
import os, signal, sys
from widemargin.atomic import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def write(path, content=b"new"):
    with atomic_write(path) as file:
        file.write(content)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def kill_while_writing(path):
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, path])
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path)
    assert path.read_bytes() == b"new"
    assert mode_of(path) == mode


def test_what_replaces_a_private_file_is_never_open_to_others(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with atomic_write(path):
        assert [mode_of(p) for p in tmp_path.iterdir()] == [0o600, 0o600]


def test_a_new_file_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "model")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "model") == 0o640


def test_the_owner_is_kept_where_that_is_allowed(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    path = tmp_path / "model"
    path.write_bytes(b"old")
    os.chown(path, 12345, 54321)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


def test_what_a_killed_writer_left_goes_with_the_next_write_beside_it(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    kill_while_writing(path)
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    write(tmp_path / "other")
    assert sorted(os.listdir(tmp_path)) == ["model", "other"]


def test_a_writer_at_work_keeps_its_file(tmp_path):
    with atomic_write(tmp_path / "first") as file:
        file.write(b"first")
        write(tmp_path / "second")
        write(tmp_path / "first", b"another's")
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]
    assert (tmp_path / "first").read_bytes() == b"first"


def test_files_of_others_stay(tmp_path):
    ours = ".widemargin-0123456789abcdef.tmp"
    names = [
        "model.tmp",
        ".model.01234567.tmp",
        ".widemargin.tmp",
        "widemargin-0123456789abcdef.tmp",
        ".widemargin-0123456789abcdeg.tmp",
        ".widemargin-0123456789abcdef.tmp.bak",
    ]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "aim").write_bytes(b"kept")
    (tmp_path / ours).symlink_to(tmp_path / "aim")
    (tmp_path / ours.replace("0", "1")).mkdir()
    os.mkfifo(tmp_path / ours.replace("0", "2"))
    before = sorted([*os.listdir(tmp_path), "new"])
    write(tmp_path / "new")
    assert sorted(os.listdir(tmp_path)) == before


def test_another_users_file_stays(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    litter = tmp_path / ".widemargin-0123456789abcdef.tmp"
    litter.write_bytes(b"")
    os.chown(litter, 12345, 54321)
    write(tmp_path / "new")
    assert litter.exists()


def test_the_longest_name_there_can_be(tmp_path):
    path = tmp_path / ("n" * 255)
    write(path)
    assert path.read_bytes() == b"new"


def test_a_name_too_long_is_named_as_the_caller_named_it(tmp_path):
    path = tmp_path / ("n" * 256)
    with pytest.raises(OSError, match="too long") as caught:
        write(path)
    assert caught.value.filename == str(path)
    assert not list(tmp_path.iterdir())
