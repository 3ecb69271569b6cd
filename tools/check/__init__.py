"""What `make check` enforces beyond the compiler and the tests: one module a rule."""
