"""How long plain Python takes under the interpreter of bytecode, in CPython's own time."""

import common

if __name__ == "__main__":
    from plain_python import PROGRAMS, slowdown

    for program in PROGRAMS:
        ratio = slowdown(program, rounds=common.ROUNDS)
        common.emit("plain Python", peer="thunder", program=program.__name__, ratio=ratio, target=30.0)
