# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that `tek lab run` takes into a guest are there, at any path."""
import os
import pathlib
import shutil
import subprocess

import pytest

TEK = pathlib.Path(os.environ.get("TEK_BUILD", "build")).resolve() / "bin" / "tek"


def lab(*arguments, **options):
    return subprocess.run([TEK, "lab", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True,
                          timeout=600, check=False, **options)


@pytest.fixture(scope="module", autouse=True)
def a_machine_can_be_booted():
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("qemu-system-x86_64 is missing (Debian's qemu-system-x86)")
    fetched = lab("fetch", "--kind", "rt")
    if fetched.returncode:
        pytest.skip(fetched.stderr.strip().splitlines()[-1])


def test_an_added_program_is_there_although_its_directory_is_new_for_each_command(tmp_path):
    program = tmp_path / "counts"
    shutil.copy(shutil.which("wc"), program)
    text = tmp_path / "text"
    text.write_text("one\ntwo\n")
    ended = lab("run", "--add", f"{text}:/home/text", "--", "./counts", "-l", "/home/text",
                cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "2 /home/text\n"), ended.stderr


def test_tmp_is_writable_for_all_even_if_files_were_put_there(tmp_path):
    program = tmp_path / "shows"
    shutil.copy(shutil.which("stat"), program)
    ended = lab("run", "--", program, "-c", "%a %n", "/tmp", "/root", "/home")
    assert ended.stdout == "1777 /tmp\n700 /root\n755 /home\n", ended.stderr
