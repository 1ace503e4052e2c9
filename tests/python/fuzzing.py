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
SHARE = 2000  # programs that a process is given


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


def share(fuzzer, seeds, shrink, results):
    """Programs in a process of its own, which tells of each."""
    torch.set_num_threads(1)
    for seed in seeds:
        found = []
        results.send((fuzz(fuzzer, seed, 1, found.append, shrink), found))


def fuzz_in_a_process(fuzzer, seeds, report, shrink):
    """As fuzz(); of a program that ends the process it says so, and goes on behind it in another one."""
    spawn = multiprocessing.get_context("spawn")
    ends = collections.Counter()
    while seeds:
        results, sender = spawn.Pipe(duplex=False)
        process = spawn.Process(target=share, args=(fuzzer, seeds, shrink, sender))
        process.start()
        sender.close()
        while seeds:
            try:
                counted, found = results.recv()
            except EOFError:
                process.join()
                counted = {"FOUND": 1}
                found = [f"==== --seed {seeds[0]} --programs 1\n-->  the process ended with {process.exitcode}\n"]
            ends.update(counted)
            seeds = seeds[1:]
            for text in found:
                report(text)
            if process.exitcode:
                break
        process.join()
    return ends


def fuzz_in_processes(fuzzer, seed, programs, jobs, report, shrink):
    ends = collections.Counter()
    shares = [range(s, min(s + SHARE, seed + programs)) for s in range(seed, seed + programs, SHARE)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(lambda seeds: fuzz_in_a_process(fuzzer, seeds, report, shrink), shares):
            ends.update(part)
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
