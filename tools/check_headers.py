#!/usr/bin/env python3
"""Finds headers that a build took from packages that a fresh machine does not have.

    python tools/check_headers.py BUILD_FOLDER NINJA

ninja knows every header of every object file.  Each must come from this repository, the compiler and its C++ library,
the C library, Python, PyTorch or nanobind.  Prints those that do not; exit status 1 if there is one.
"""

import pathlib
import re
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What lies beside all other packages' headers in the system's folders: the folders of the C library and of the kernel,
# and single headers, those of the C standard, of POSIX and of glibc.
C_FOLDERS = "arpa asm asm-generic bits gnu linux net netinet rpc sys".split()
C_HEADERS = """
    alloca assert cpio complex ctype dirent dlfcn elf endian errno error execinfo fcntl features
    features-time64 fenv float fnmatch ftw getopt glob grp iconv ifaddrs inttypes iso646 langinfo libgen
    libintl limits link locale malloc math memory mntent monetary mqueue netdb nl_types paths poll pthread pty
    pwd regex resolv sched search semaphore setjmp sgtty signal spawn stdalign stdarg stdatomic stdbool
    stdc-predef stddef stdint stdio stdlib stdnoreturn string strings stropts syscall sysexits syslog tar
    termios tgmath threads time trace uchar ucontext ulimit unistd utime utmp utmpx values wait wchar wctype
    wordexp xlocale
""".split()


def is_c_library(path: pathlib.PurePath, folder: pathlib.PurePath) -> bool:
    """Whether a header below a system's folder (/usr/include) belongs to the C library or the kernel."""
    parts = path.relative_to(folder).parts
    if len(parts) > 1 and re.fullmatch(r"\w+-linux-gnu\w*", parts[0]):  # Debian keeps those of one machine there
        parts = parts[1:]
    return parts[0] in C_FOLDERS if len(parts) > 1 else parts[0] in {f"{name}.h" for name in C_HEADERS}


def foreign(headers, own, system):
    """Those of `headers` below none of the folders `own`, and not the C library's below one of the folders `system`."""

    def is_known(path):
        if any(path.is_relative_to(folder) for folder in own):
            return True
        return any(path.is_relative_to(folder) and is_c_library(path, folder) for folder in system)

    return sorted(path for path in set(headers) if not is_known(path))


def compiler_folders(compiler):
    """The folders that the compiler searches by itself: its own, which have its name, and those of the system."""
    out = subprocess.run([*compiler.split(), "-E", "-v", "-x", "c++", "/dev/null"], capture_output=True, text=True)
    lines = out.stderr.splitlines()
    start, end = (next(i for i, line in enumerate(lines) if line.startswith(text)) for text in ("#include <", "End of"))
    folders = [pathlib.Path(line.strip()).resolve() for line in lines[start + 1 : end]]
    own = [f for f in folders if re.search(r"/(c\+\+|gcc\w*|clang|llvm)([-/]|$)", str(f))]
    return own, [f for f in folders if f not in own]


def headers_of(build, ninja):
    """The headers of all objects, by their real paths; relative ones stand in the build folder."""
    text = subprocess.run([ninja, "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    valid, lines = False, set()
    for line in text.splitlines():
        if not line.startswith(" "):
            # The log has libraries, too, and what objects needed that are not built any more.
            valid = line.endswith("(VALID)") and line.partition(":")[0].endswith(".o")
        elif valid:
            lines.add(line.strip())
    return {(build / line).resolve() for line in lines if not line.endswith(".cpp")}


def setting(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def main():
    build, ninja = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    import nanobind
    import torch

    own, system = compiler_folders(setting(build, "CMAKE_CXX_COMPILER"))
    packages = [ROOT, sysconfig.get_path("include"), sysconfig.get_path("platinclude")]
    if multiarch := sysconfig.get_config_var("MULTIARCH"):  # where Debian keeps pyconfig.h
        packages.append(f"/usr/include/{multiarch}/python{sysconfig.get_python_version()}")
    packages += [pathlib.Path(m.__file__).parent for m in (nanobind, torch)]
    headers = headers_of(build, ninja)
    if len(headers) < 100:
        sys.exit(f"ninja knows only {len(headers)} headers of {build}: build first")
    found = foreign(headers, own + [pathlib.Path(p).resolve() for p in packages], system)
    for path in found:
        print(f"{path}: comes from neither the repository, the compiler, Python, PyTorch nor nanobind")
    print(f"headers: {len(headers)}, {len(found)} of unknown origin")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
