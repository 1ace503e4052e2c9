"""What random tests share: running a program under a time limit, making one that fails smaller, the command line.

A fuzzer gives `made(seed)`, a program; `run(program)`, which raises Finding or returns something with `refusal` (why it
ended early, or None) and `counts` (numbers to add up); and `smaller(program)`, programs with something left out.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import multiprocessing
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable

import torch

SECONDS = 30  # that a program may take
SHARE = 200  # programs that a process is given at once


class Finding(AssertionError):
    pass


@dataclasses.dataclass
class Fuzzer:
    made: Callable
    run: Callable
    smaller: Callable


def attempt(action):
    """(what it gave, None) or (None, what it raised)."""
    try:
        return action(), None
    except Exception as error:  # compared with eager's
        return None, error


def too_long(*_):
    raise Finding(f"takes more than {SECONDS} seconds")


def finding(fuzzer, program):
    """What is wrong with it, or None; and the run, if it got to an end."""
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return None, fuzzer.run(program)
    except Finding as error:
        return error, None
    finally:
        signal.alarm(0)


def minimise(fuzzer, program, error):
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in fuzzer.smaller(program):
            # A program that is none, as a definition is missing, has nothing wrong.
            result, _ = attempt(lambda c=candidate: finding(fuzzer, c))
            if result and result[0]:
                program, error, shrunk = candidate, result[0], True
                break
    return program, error


def kind(refusal):
    return re.sub(r"\d+", "#", refusal.split("\n")[0])[:90]


def fuzz(fuzzer, seed, programs, report=print, shrink=True):
    """Programs of the seed and those after it.  Returns how many there were, by how they ended."""
    ends = collections.Counter()
    for i in range(seed, seed + programs):
        program = fuzzer.made(i)
        error, run = finding(fuzzer, program)
        if error is None:
            ends.update(run.counts)
            ends[kind(run.refusal) if run.refusal else "same"] += 1
            continue
        ends["FOUND"] += 1
        if shrink:
            program, error = minimise(fuzzer, program, error)
        text = f"==== --seed {i} --programs 1\n{program}\n-->  {error}\n"
        if error.__cause__ is not None:
            text += "".join(traceback.format_exception(error.__cause__)[-3:])
        report(text)
    return ends


def share(fuzzer, seed, programs, shrink):
    """A part of the programs, in a process of its own."""
    torch.set_num_threads(1)
    found = []
    return fuzz(fuzzer, seed, programs, found.append, shrink), found


def fuzz_in_processes(fuzzer, seed, programs, jobs, report, shrink):
    ends = collections.Counter()
    starts = range(seed, seed + programs, SHARE)
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, spawn, max_tasks_per_child=20) as pool:
        parts = [pool.submit(share, fuzzer, s, min(SHARE, seed + programs - s), shrink) for s in starts]
        for part in concurrent.futures.as_completed(parts):
            counted, found = part.result()
            ends.update(counted)
            for text in found:
                report(text)
    return ends


def main(fuzzer, description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--as-made", action="store_true", help="do not look for a smaller program that fails")
    parser.add_argument("--show", action="store_true", help="print the programs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.show:
        for i in range(options.seed, options.seed + options.programs):
            print(fuzzer.made(i), end="\n\n")
    report, shrink = lambda text: print(text, flush=True), not options.as_made
    if options.jobs > 1:
        ends = fuzz_in_processes(fuzzer, options.seed, options.programs, options.jobs, report, shrink)
    else:
        ends = fuzz(fuzzer, options.seed, options.programs, report, shrink)
    for end, n in ends.most_common():
        print(f"{n:7} {end}")
    sys.exit(1 if ends["FOUND"] else 0)
