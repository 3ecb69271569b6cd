"""`python -m flambeau script.py`: programs written for torch run unchanged, under their own name and arguments."""

import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def run(tmp_path):
    """Runs a program's text under the runner; returns (exit status, stdout, stderr)."""

    def run(source, *arguments, status=0, as_module=False):
        (tmp_path / "program.py").write_text(textwrap.dedent(source))
        target = ["-m", "program"] if as_module else ["program.py"]
        done = subprocess.run(
            [sys.executable, "-m", "flambeau", *target, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == status, done.stderr
        return done.stdout, done.stderr

    return run


def test_torch_and_submodules_are_the_same_objects_as_flambeau(run):
    out, _ = run("""
        import torch, flambeau, sys
        import torch.nn.functional as F
        from torch.utils.data import DataLoader
        import flambeau.nn.functional, flambeau.utils.data
        assert torch is flambeau and sys.modules["torch"] is sys.modules["flambeau"]
        assert F is flambeau.nn.functional and torch.nn is flambeau.nn
        assert sys.modules["torch.nn"] is sys.modules["flambeau.nn"]
        assert DataLoader is flambeau.utils.data.DataLoader
        assert flambeau.nn.__spec__.name == flambeau.nn.__name__ == "flambeau.nn"
        print(torch.tensor([1.0, 2.0]).sum().item())
    """)
    assert out == "3.0\n"


def test_program_sees_its_own_name_arguments_and_folder(run, tmp_path):
    (tmp_path / "beside.py").write_text("value = 7\n")
    source = """
        import sys, os, beside
        assert __name__ == "__main__" and sys.modules["__main__"].beside is beside
        print(os.path.basename(__file__), sys.argv[1:], beside.value)
    """
    for as_module in (False, True):
        out, _ = run(source, "a", "--b=1", as_module=as_module)
        assert out == "program.py ['a', '--b=1'] 7\n"


def test_version_and_spec_of_torch_are_answered_without_an_import(run):
    out, _ = run("""
        import importlib.metadata, importlib.util, sys
        assert importlib.util.find_spec("torch") and "torch" not in sys.modules
        assert importlib.util.find_spec("torch.nn")
        assert any(d.name == "torch" for d in importlib.metadata.distributions())
        print(importlib.metadata.version("torch"))
    """)
    assert out == "2.13.0\n"


def test_unknown_submodule_is_reported_under_the_name_that_was_asked(run):
    out, _ = run("""
        import importlib.util
        print(importlib.util.find_spec("torch.no_such_module"))
        try:
            import torch.no_such_module
        except ModuleNotFoundError as error:
            print(error)
    """)
    assert out == "None\nNo module named 'torch.no_such_module'\n"


def test_traceback_starts_in_the_script(run):
    _, err = run("def f():\n    raise ValueError('broken')\nf()\n", status=1)
    assert err.count("File ") == 2 and "_runner" not in err and "runpy" not in err
    assert err.endswith("ValueError: broken\n")


def test_exit_status_is_the_program_s(run):
    run("import sys; sys.exit(3)", status=3)


def test_torch_stays_unknown_outside_the_runner():
    code = "import sys, flambeau; print(any('torch' in m.split('.')[0] for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_missing_script_and_missing_arguments_are_one_sentence(tmp_path):
    for arguments, status, text in (([], 2, "usage:"), (["no.py"], 1, "can't open no.py")):
        done = subprocess.run(
            [sys.executable, "-m", "flambeau", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status
        assert text in done.stdout + done.stderr and "Traceback" not in done.stderr
