#!/usr/bin/env bash
# Provides what a make target needs: Debian packages (installed when root, named otherwise) and .venv with Python packages.
#   tools/setup.sh GROUP...      groups: build test check demo coverage docs
# Run again it only looks; a stamp in .venv remembers which version of pyproject.toml a group was installed from.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
missing=()

need() {  # need PACKAGE TEST...: the Debian package is missing unless the test succeeds
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

for group in "$@"; do
  case $group in
    build)
      need g++ command -v "${CXX:-g++}"
      need cmake command -v cmake
      need ninja-build command -v ninja
      need python3 command -v "$python"
      need python3-venv "$python" -c "import venv, ensurepip"
      need python3-dev "$python" -c "import os, sysconfig as s; os.stat(s.get_path('include') + '/Python.h')" ;;
    test) need googletest test -e /usr/src/googletest/CMakeLists.txt ;;
    check)
      need clang-format-14 command -v clang-format-14
      need binutils command -v nm ;;
    demo) need dataset-fashion-mnist test -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ;;
  esac
done

if ((${#missing[@]})); then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
      { apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null; } ||
      { echo "flambeau: could not install the Debian packages: ${missing[*]}" >&2; exit 1; }
  else
    echo "flambeau: missing Debian packages, install them with: apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi

"$python" -c "import sys; sys.exit(sys.version_info < (3, 11))" ||
  { echo "flambeau: needs Python 3.11 or later, $python is older; name another with PYTHON=..." >&2; exit 1; }
[ -x .venv/bin/python ] || "$python" -m venv .venv

for group in "$@"; do
  stamp=.venv/.installed-$group
  [ "$stamp" -nt pyproject.toml ] && continue
  mapfile -t packages < <(.venv/bin/python - "$group" <<'PY'
import sys, tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")
PY
  )
  .venv/bin/pip install -q --disable-pip-version-check "${packages[@]}"
  touch "$stamp"
done
