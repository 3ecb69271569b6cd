"""The rules of `make check` find what they are for and nothing else."""

import re
import subprocess

import pytest

from tools.check import arrows, floors, functions, objects, sizes, words

CPP = """\
// A file.
#define FL_TWO(x) do { x; \\
  x; } while (0)
namespace a {
struct S : Base<int(char)> {
  S(int x) : x_{x}, y_(x) {
    use("}}{", '{');
  }
  int get() const { return x_; }  // }
  std::vector<int> v_{1, 2};
};
constexpr int kTable[] = {f(1), f(2)};
template <class T, class F = decltype(g())>
auto h(T t)
    -> int {
  auto inner = [&](int i) {
    return i;
  };
  if (t) { return 0; } else { return 1; }
}
}  // namespace a
"""


def test_functions_of_cpp_are_measured_with_their_headers():
    assert list(functions.cpp_functions(CPP)) == [(6, 3), (9, 1), (13, 8)]


def test_functions_of_python_are_measured():
    source = "class A:\n    def f(self):\n        x = 1\n        return x\n"
    assert list(functions.python_functions(source)) == [(2, 3)]


@pytest.mark.parametrize(
    "room, target, allowed",
    [
        ("core", "core/tensor.h", True),
        ("core", "kernels/simd.h", False),
        ("ops", "core/tensor.h", True),
        ("autograd", "ops/ops.h", True),
        ("ops", "autograd/node.h", False),
        ("nn", "optim/adam.h", False),
        ("nn", "optim/optim.h", True),
        ("python", "jit/ir.h", True),
        ("ops", "flambeau.h", False),
        ("python", "flambeau.h", True),
    ],
)
def test_arrows(room, target, allowed):
    assert (arrows.judge(room, target) is None) == allowed


def test_weighted_median_is_the_file_of_the_middle_line():
    assert sizes.weighted_median([10, 10, 10, 100]) == 100
    assert sizes.weighted_median([10, 10, 10]) == 10
    assert sizes.weighted_median([]) == 0


def test_the_generator_stays_small():
    texts = {"a.py": "x = 1\ny = 2\n", "b.py": "z = 34567\n"}
    assert sizes.generator_problems(texts, 3, 9) == []
    assert sizes.generator_problems(texts, 2, 8) == [
        "the generator has 3 lines, at most 2",
        "b.py:1: 9 columns, at most 8",
    ]


def test_forbidden_words():
    path, later = words.FORBIDDEN
    assert re.search(path, "x/ro" + "ot/y") and not re.search(path, "the root/leaf")
    assert re.search(later, "a TO" + "DO") and not re.search(later, "mastodon")


def test_weak_symbols_and_start_up_code_are_found(tmp_path):
    source = tmp_path / "kernel.cpp"
    source.write_text("""
        template <class T> __attribute__((noinline)) T shared(T x) { return x + 1; }
        namespace flambeau::v3 {
        template <class T> __attribute__((noinline)) T own(T x) { return x + 2; }
        int f(int x) { return shared(x) + own(x); }
        extern int g();
        int late = g();
        }
    """)
    compiled = tmp_path / "kernel.o"
    subprocess.run(["g++", "-std=c++20", "-O1", "-c", source, "-o", compiled], check=True)
    (weak,) = objects.weak_symbols("v3", [compiled])
    assert "shared<int>" in weak
    (late,) = objects.start_up_code([compiled])
    assert "init_array" in late


def test_libraries_that_outgrow_their_limit_are_found(tmp_path):
    source = tmp_path / "part.cpp"
    source.write_text("int f() { return 1; }")
    library = tmp_path / "libpart.so"
    command = ["g++", "-shared", "-fPIC", source, "-o", library]
    subprocess.run([*command, "-Wl,--strip-all"], check=True)
    size = library.stat().st_size
    assert objects.too_large([library], most=size) == []
    (problem,) = objects.too_large([library], most=size - 1)
    assert f"libraries of {size:,} bytes" in problem and f"libpart.so {size:,}" in problem
    subprocess.run(command, check=True)  # keeps its symbols: made for a debugger
    assert objects.too_large([library], most=1) == []


def test_floors_only_rise():
    old = {"ops": {"passed": 10, "left_out": 5}, "rng": {"passed": 3, "left_out": 0}}
    new = {
        "ops": {"passed": 12, "left_out": 7},
        "rng": {"passed": 2, "left_out": 0},
        "init": {"passed": 1, "left_out": 9},
    }
    assert floors.complaints(old, new) == [
        "ops: 7 cases left out, at most 5 allowed",
        "rng: 2 cases passed, at least 3 required",
    ]
    assert floors.raised(old, new) == {
        "ops": {"passed": 12, "left_out": 5},
        "rng": {"passed": 3, "left_out": 0},
        "init": {"passed": 1, "left_out": 9},
    }
