"""Engines of quantised kernels: none."""

engine = "none"
supported_engines = ["none"]
