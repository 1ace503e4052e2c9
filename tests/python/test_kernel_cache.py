"""The folder of compiled kernels: what others may have written to is not run."""

import os
import shutil
import struct
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import warnings
    import torch, thunder
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = thunder.jit(lambda x: (x.sin() * 2 + 1).relu() * 7.5)
        x = torch.ones(4)
        for _ in range(2):
            torch.testing.assert_close(f(x), (x.sin() * 2 + 1).relu() * 7.5)
    print("warnings:", len(caught), *[w.message for w in caught])
"""
COMPILER = shutil.which("g++") or shutil.which("clang++")


def run(folder, succeeds=True, **environment):
    env = {**os.environ, "THUNDER_CACHE_DIR": str(folder), **environment}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert not succeeds or done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def fast_hash(data):
    """The hash by which an entry's damage is found; no secret, so that an attacker computes it as well."""
    mask = (1 << 64) - 1

    def mixed(x):
        for _ in range(2):
            x ^= x >> 32
            x = x * 0xD6E8FEB86659FD93 & mask
        return x ^ (x >> 32)

    lanes, whole = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], len(data) // 8 * 8
    for i in range(0, whole, 8):
        lane = i // 8 % 2
        x = (lanes[lane] ^ int.from_bytes(data[i : i + 8], "little")) * 0x9FB21C651E98DF25 & mask
        lanes[lane] = (x << 29 | x >> 35) & mask
    tail = int.from_bytes(data[whole:], "little")
    return mixed(mixed(lanes[0] ^ tail) + mixed(lanes[1]) + len(data) & mask)


def entries(folder):
    return [f for f in folder.glob("??/*") if f.read_bytes()[:4] == b"\x7fELF"]


def poison(folder):
    """Puts code that says so in the place of every library in the cache."""
    source, library = folder.parent / "evil.c", folder.parent / "evil.so"
    source.write_text(
        "#include <stdio.h>\n"
        '__attribute__((constructor)) static void go(void) { fprintf(stderr, "FOREIGN CODE RUNS\\n"); }\n'
        "int fusion0(void) { return 0; }\n"
    )
    subprocess.run([COMPILER, "-x", "c", "-shared", "-fPIC", "-o", library, source], check=True)
    evil = library.read_bytes()
    assert entries(folder)
    for entry in entries(folder):
        data = entry.read_bytes()
        size, check, *material = struct.unpack("<5Q", data[-40:])
        assert check == fast_hash(data[:-40]) and size == len(data) - 40
        entry.write_bytes(evil + struct.pack("<5Q", len(evil), fast_hash(evil), *material))


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("poison") / "cache"
    assert "warnings: 0" in run(folder)
    poison(folder)
    return folder


@pytest.fixture
def cache(poisoned, tmp_path):
    return shutil.copytree(poisoned, tmp_path / "cache")


def test_the_poison_works(cache):
    # With the user's own files it is run: the test below shows what keeps others' from being run.
    assert "FOREIGN CODE RUNS" in run(cache, succeeds=False)


def give_away(path):
    os.chown(path, 65534, 65534)


OPENED = {
    "folder": lambda folder, entry: folder.chmod(0o777),
    "sticky folder": lambda folder, entry: folder.chmod(0o1777),
    "subfolder": lambda folder, entry: entry.parent.chmod(0o777),
    "entry": lambda folder, entry: entry.chmod(0o666),
    "folder above": lambda folder, entry: folder.parent.chmod(0o777),
}
GIVEN = {
    "folder of another user": lambda folder, entry: give_away(folder),
    "subfolder of another user": lambda folder, entry: give_away(entry.parent),
    "entry of another user": lambda folder, entry: give_away(entry),
}


@pytest.mark.parametrize("how", [*OPENED, *(GIVEN if os.geteuid() == 0 else [])])  # only root can give files away
def test_what_others_may_have_written_is_not_run(cache, how):
    for entry in entries(cache):
        (OPENED | GIVEN)[how](cache, entry)
    out = run(cache)
    assert "FOREIGN" not in out
    assert "warnings: 1 [disk cache]" in out and "is not used, because somebody else" in out


def test_a_shared_folder_is_not_written_to(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    os.chmod(folder, 0o777)
    assert "it may be written by everybody" in run(folder)
    assert not list(folder.iterdir())


def test_the_cache_keeps_its_limit(tmp_path):
    folder = tmp_path / "cache"
    assert "warnings: 0" in run(folder, THUNDER_CACHE_SIZE="4K")
    assert not entries(folder)
    assert "warnings: 0" in run(folder, THUNDER_CACHE_SIZE="10M")
    assert entries(folder)


def test_no_cache_at_all(tmp_path):
    assert "warnings: 0" in run(tmp_path / "cache", THUNDER_CACHE_SIZE="0")
    assert not (tmp_path / "cache").exists()
