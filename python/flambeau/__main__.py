"""python -m flambeau script.py: runs a program written for torch on flambeau."""

from flambeau import _runner

_runner.main()
