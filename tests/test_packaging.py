"""What users install: wheel, sdist, C library; built and used in clean places."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import lanekit
from activated_run import run
from patience import patience

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked sources, so that no build touches the real checkout."""
    here = Path(__file__).resolve().parent.parent
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("csrc", "python", "tools"):
        shutil.copytree(here / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    files = ("pyproject.toml", "CMakeLists.txt", "CMakePresets.json")
    for name in (*files, "README.md", "LICENSE", "NOTICE"):
        shutil.copy(here / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def distributions(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel built from that sdist; tools/test_pythons.sh may have built them."""
    if built := os.environ.get("LANEKIT_DISTRIBUTIONS"):
        return Path(built)
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, checkout)
    return out


def test_the_wheel_is_limited_api_and_holds_what_it_should(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    tag = "cp314-cp314t" if FREE_THREADED else "cp311-abi3"
    assert f"lanekit-{lanekit.__version__}-{tag}-linux" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    suffix = sysconfig.get_config_var("EXT_SUFFIX") if FREE_THREADED else ".abi3.so"
    assert f"lanekit/_native{suffix}" in names
    assert f"lanekit/_stress{suffix}" in names
    assert "lanekit/py.typed" in names
    assert all(name.startswith(("lanekit/", f"lanekit-{lanekit.__version__}")) for name in names)


def test_the_sdist_holds_sources_and_no_builds(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[-1] for name in archive.getnames()]
    sources = {"csrc/lanekit_api.h", "python/ext/frame_publish.c", "tools/emit_binding.py"}
    assert sources | {"CMakeLists.txt"} <= set(names)
    assert not [name for name in names if name.startswith("build/") or name.endswith(".so")]


def test_the_wheel_works_in_an_empty_environment(distributions: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    (wheel,) = distributions.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", wheel)
    assert '"state": "fail"' not in run(python, "-m", "lanekit", "doctor", "--json")
    assert run(tmp_path / "venv" / "bin" / "lanekit", "--version").strip().startswith("lanekit ")
    code = "import sys, lanekit; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    assert run(python, "-c", code).strip() == str(not FREE_THREADED)
    # The base install stays light.
    installed = run(python, "-m", "pip", "list", "--format=freeze").lower()
    names = {line.split("==")[0] for line in installed.splitlines()}
    assert names == {"cffi", "lanekit", "numpy", "pip", "pycparser"} | (names & {"setuptools"})


TEN_LINES = """
#include <lanekit.h>
#include <stdio.h>
int main(void) {
    struct lk_frame_config config = {4, 2, 3, LK_PIXEL_RGB, 8, 0};
    unsigned char pixels[24] = {1, 2, 3};
    lk_frame_writer *writer;
    if (lk_frame_create(&writer, "from-c", 6, &config) < 0) return 1;
    printf("%lld\\n", (long long)lk_frame_publish(writer, pixels, sizeof pixels, 0, 0));
    lk_frame_writer_close(writer);
    return lk_frame_writer_unlink(writer);
}
"""

CONSUMER = """
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(lanekit 0.1 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE lanekit::lanekit)
"""


@pytest.fixture(scope="module")
def prefix(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the C library is installed."""
    build = tmp_path_factory.mktemp("build")
    run("cmake", "-S", checkout, "-B", build, "-DBUILD_TESTING=OFF")
    run("cmake", "--build", build)
    found = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", build, "--prefix", found)
    return found


@pytest.mark.once
def test_the_c_library_needs_nothing_but_the_system_s_own(prefix: Path, tmp_path: Path) -> None:
    (archive,) = prefix.rglob("liblanekit.a")
    whole = ("-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-Wl,--no-undefined")
    # Not even libgcc: what it adds can not be linked into a shared library by every linker.
    run("cc", "-shared", "-nodefaultlibs", *whole, "-lc", "-o", tmp_path / "all.so")


@pytest.mark.once
def test_a_ten_line_c_program_finds_the_installed_library(prefix: Path, tmp_path: Path) -> None:
    (about,) = prefix.rglob("lanekit-config-version.cmake")
    assert f'set(PACKAGE_VERSION "{lanekit.__version__}")' in about.read_text()
    consumer = tmp_path / "consumer"
    consumer.mkdir()
    (consumer / "consumer.c").write_text(TEN_LINES)
    (consumer / "CMakeLists.txt").write_text(CONSUMER)
    run("cmake", "-S", consumer, "-B", consumer / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", consumer / "build")
    assert run(consumer / "build" / "consumer") == "1\n"


@pytest.mark.once
def test_a_frame_published_from_c_is_read_from_python(checkout: Path, tmp_path: Path) -> None:
    source = tmp_path / "publish.c"
    source.write_text(TEN_LINES.replace("lk_frame_writer_close(writer);", "getchar();"))
    objects = sorted((checkout / "csrc").glob("lk_*.c"))
    flags = ["-std=c11", "-D_GNU_SOURCE", f"-I{checkout / 'csrc'}", "-pthread"]
    run("cc", *flags, source, *objects, "-o", tmp_path / "publish", "-lrt")
    with subprocess.Popen(
        [tmp_path / "publish"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as publisher:
        with lanekit.FastLaneReader.attach("from-c", timeout=patience()) as reader:
            assert reader.wait(patience())
            frame = reader.latest_frame()
            assert frame is not None
            assert frame.data == bytes([1, 2, 3]) + bytes(21)
        publisher.communicate(b"\n")
    assert publisher.returncode == 0
