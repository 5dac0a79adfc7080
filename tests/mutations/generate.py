"""Generates the mutants, always the same ones: ``python generate.py [FAMILY..]`` lists them, ``--text KEY`` prints one.

Every operator proposes what it can for every seed; of each operator a few are taken, from different seeds, until a family has its number.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import families
from mutant import Mutant, make
from seed import Mutation, Seed, load_seeds

PER_FAMILY = 30
Proposal = tuple[Seed, str, str, int, Mutation]


def mutants(salt: str = "", number: int = PER_FAMILY) -> list[Mutant]:
    """``number`` mutants a family; another ``salt`` gives others."""
    seeds = load_seeds()
    found: list[Mutant] = []
    texts: set[tuple[str, str]] = set()
    for family, operators in families.load().items():
        offered = {name: proposals(family, name, function, seeds, salt) for name, function in operators.items()}
        found += chosen(offered, texts, number)
    return found


def proposals(family: str, name: str, function: families.Function, seeds: list[Seed], salt: str) -> list[Proposal]:
    """What an operator offers for the seeds, in an order that is mixed but always the same."""
    made = [(seed, family, name, number, mutation) for seed in seeds for number, mutation in enumerate(function(seed))]
    random.Random(f"{salt}{family}/{name}").shuffle(made)
    return made


def chosen(offered: dict[str, list[Proposal]], texts: set[tuple[str, str]], number: int) -> list[Mutant]:
    """Round by round one mutant of every operator."""
    taken: list[Mutant] = []
    while len(taken) < number and any(offered.values()):
        for queue in offered.values():
            while queue:
                mutant = make(*queue.pop())
                if mutant is not None and (mutant.text, mutant.target) not in texts:
                    texts.add((mutant.text, mutant.target))
                    taken.append(mutant)
                    break
    return taken[:number]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="*")
    parser.add_argument("--text", metavar="KEY", help="print this mutant's file")
    options = parser.parse_args()
    for m in mutants():
        if options.text:
            if m.key == options.text:
                print(m.text, end="")
                return 0
        elif not options.family or m.family in options.family:
            print(f"{m.key} [{m.target}] lines {','.join(map(str, m.lines))}: {m.edit[:150]}")
    return 0 if not options.text else 1


if __name__ == "__main__":
    sys.exit(main())
