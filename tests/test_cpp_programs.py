"""C++ programs outside of the tree: they build against the package, an installation and pkg-config, and agree with
Python."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import flambeau as torch
from tests.test_examples import EXAMPLES, fashion_mnist, write_data

PACKAGE = pathlib.Path(torch.__file__).parent
BUILD = PACKAGE.parent.parent
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES CXX)
find_package(flambeau CONFIG REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE flambeau::flambeau)
"""
PROGRAM = """
#include <flambeau/flambeau.h>
#include <cstdio>
int main() {
  using namespace flambeau;
  Tensor x = tensor({{1., 2.}, {3., 4.}}, {.requires_grad = true});
  (x * x).sum().backward();
  std::printf("%g %g\\n", x.grad().sum().item<double>(), x[1][0].item<double>());
}
"""
CACHE = BUILD / "CMakeCache.txt"
# A sanitizer's library would have to be in the programs too.
PLAIN = CACHE.exists() and "FLAMBEAU_SANITIZE:STRING=\n" in CACHE.read_text()
needs_cmake = pytest.mark.skipif(
    not shutil.which("cmake") or not PLAIN, reason="needs CMake and a plain build folder"
)


def run(*command, **options):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=300, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(folder, source, prefix):
    """A program built by a CMake project of its own, which may not know of Python."""
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(PROJECT)
    (folder / "program.cpp").write_text(source)
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_DISABLE_FIND_PACKAGE_Python=ON"]
    run("cmake", "-S", folder, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release", *options)
    run("cmake", "--build", folder / "build")
    return folder / "build" / "program"


@pytest.fixture(scope="module")
def prefix():
    return run(sys.executable, "-m", "flambeau", "--cmake-prefix-path").strip()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What `cmake --install` gives."""
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


@needs_cmake
def test_prefix_is_the_package(prefix):
    assert pathlib.Path(prefix) == PACKAGE
    assert (PACKAGE / "lib/cmake/flambeau/flambeau-config.cmake").exists()


@needs_cmake
def test_project_builds_against_an_installation(installed, tmp_path):
    assert run(build(tmp_path / "outside", PROGRAM, installed)) == "20 3\n"


@needs_cmake
@pytest.mark.skipif(not shutil.which("pkg-config"), reason="needs pkg-config")
def test_program_builds_with_pkg_config(installed, tmp_path):
    (tmp_path / "program.cpp").write_text(PROGRAM)
    folders = {"PKG_CONFIG_PATH": str(installed / "lib/pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "flambeau", env={**os.environ, **folders})
    program = tmp_path / "program"
    run("g++", tmp_path / "program.cpp", "-o", program, *flags.split())
    libraries = {"LD_LIBRARY_PATH": str(installed / "lib")}
    assert run(program, env={**os.environ, **libraries}) == "20 3\n"


@needs_cmake
def test_example_agrees_with_its_python_twin(prefix, tmp_path):
    """Equal draws, equal losses, one model file."""
    program = build(tmp_path / "example", (EXAMPLES / "fashion_mnist.cpp").read_text(), prefix)
    data, logs, saved = write_data(tmp_path), [], []
    for name in ("python", "c++"):
        out, losses = tmp_path / name, tmp_path / f"{name}.txt"
        options = ["--data", data, "--out", out, "--epochs", 2, "--batch", 32, "--losses", losses]
        if name == "python":
            done = fashion_mnist(*options)
            assert done.returncode == 0, done.stderr
        else:
            shown = run(program, *options)
        logs.append(losses.read_text())
        saved.append(out / "fashion_mnist.pt")
    assert len(logs[0].splitlines()) == 80 and logs[0] == logs[1]
    states = [torch.load(file) for file in saved]
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    score = shown.splitlines()[-1]
    assert run(program, "--data", data, "--model", saved[0]) == score + "\n"
