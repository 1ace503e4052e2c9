#!/usr/bin/env bash
# Makes .venv with everything that building and testing need. The Makefile calls it when its inputs change.
#
#   PYTHON          the Python to use (3.11 or 3.12); default: python3, then python3.12, python3.11
#   TORCH           what to install when that Python has no torch; default: torch==2.13.0
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf '\nset-up: %s\n' "$*" >&2; exit 1; }
supported() {
  command -v "$1" >/dev/null 2>&1 &&
    "$1" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' >/dev/null 2>&1
}

# --- what the machine must have ---

python=
for candidate in "${PYTHON:-python3}" python3.12 python3.11; do
  if supported "$candidate"; then python=$(command -v "$candidate"); break; fi
done
[ -n "$python" ] || fail "needs Python 3.11 or 3.12; '${PYTHON:-python3}' is $("${PYTHON:-python3}" --version 2>&1 || true)," \
  "and python3.12, python3.11 are not there either. Install one, or name it: make PYTHON=/path/to/python3.11"
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
  fail "$python has no Python.h (on Debian and Ubuntu: apt install python3-dev)"

cxx=${CXX:-c++}
command -v "${cxx%% *}" >/dev/null 2>&1 || fail "no C++ compiler '$cxx' (on Debian and Ubuntu: apt install g++; or set CXX)"
echo 'auto f(auto a) requires requires { a + a; } { return a <=> a; }' | sed '1i #include <compare>' |
  $cxx -std=c++20 -x c++ -fsyntax-only - >/dev/null 2>&1 || fail "'$cxx' does not compile C++20 (g++ 11 or clang 14 and newer do)"

# --- .venv ---

# A torch that this Python already has is the one that the user will run with: build for it.
has_torch() { "$1" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'; }
venv_args=()
if has_torch "$python"; then venv_args+=(--system-site-packages); fi

py=.venv/bin/python
# One made from another Python, or left half made, is of no use.
if [ -e .venv ] && [ "$(cat .venv/made-from 2>/dev/null)" != "$python ${venv_args[*]-}" ]; then rm -rf .venv; fi
if [ ! -e .venv ]; then
  echo "set-up: .venv from $python ($("$python" --version))"
  if ! "$python" -m venv ${venv_args[@]+"${venv_args[@]}"} .venv >/dev/null 2>&1; then
    # Debian's python3 lacks ensurepip unless python3-venv is installed; pip can fill the environment from outside.
    rm -rf .venv
    "$python" -m venv --without-pip ${venv_args[@]+"${venv_args[@]}"} .venv || fail "$python -m venv does not work"
    "$python" -m pip --python "$py" install --quiet pip || fail "$python has no pip (22.3 or newer)"
  fi
  if [ "${#venv_args[@]}" -gt 0 ]; then
    # --system-site-packages means those of the base Python; when $python is itself a virtual environment, add its own.
    "$python" -c 'import site, sys; print(*site.getsitepackages(), sep="\n") if sys.prefix != sys.base_prefix else None' \
      > "$("$py" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/parent-environment.pth"
  fi
  echo "$python ${venv_args[*]-}" > .venv/made-from
fi

pip() { "$py" -m pip --disable-pip-version-check "$@"; }
if ! has_torch "$py"; then
  echo "set-up: installing ${TORCH:-torch==2.13.0}"
  pip install --quiet "${TORCH:-torch==2.13.0}"
fi
echo "set-up: PyTorch $("$py" -c 'from importlib.metadata import version; print(version("torch"))'), build tools and test requirements"
pip install --quiet -r requirements/build.txt -r requirements/test.txt
pip install --quiet --no-deps -r requirements/test-no-deps.txt
