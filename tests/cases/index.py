"""The table of cases (cases.tsv): which test holds which case, read and checked."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))

# Numbers of the cases by kind; gaps are cases that were not given.
GIVEN = {
    "HL": "01 03 04 06 07 09 10 12 13", "SY": "01 02 04 05 07 08", "TS": "01 02 04 05", "SU": "01 03 04 06 07 09 10",
    "DE": "01 03 04 06 07 09 10 12 13 15", "PI": "01 02 04 05 07", "AU": "01 02 04 05 07 08", "HT": "01 02 04 05",
    "SC": "01 03 04 06 07 09 10 12 13 15 16", "GR": "01 02 04 05", "ST": "01 02 04 05 07", "RE": "01 02 04 05 07",
    "NE": "01 02 04", "DL": "01 02 04", "SE": "01 03 04 06 07 09 10 12 13",
}


def given():
    return [kind + number for kind, numbers in GIVEN.items() for number in numbers.split()]


def rows():
    """(number, what goes wrong, tests, why there is none) of every line."""
    for line in open(os.path.join(HERE, "cases.tsv"), encoding="utf-8"):
        if not line.startswith("#"):
            fields = line.rstrip("\n").split("\t")
            number, what, tests = fields[:3]
            yield number, what, [] if tests == "-" else tests.split(" "), fields[3] if len(fields) > 3 else ""


def faults():
    """What is wrong with the table: a case that is missing, a test that is not there."""
    found, seen = [], []
    texts = {}
    for number, what, tests, why in rows():
        seen.append(number)
        if not tests and not why:
            found.append("%s has neither a test nor a reason" % number)
        for test in tests:
            path, _, name = test.partition("::")
            if path not in texts:
                full = os.path.join(TOP, path)
                texts[path] = open(full, encoding="utf-8").read() if os.path.isfile(full) else ""
            if path.endswith(".rs"):
                there = re.search(r"\bfn %s\(|^    %s: (?:source\(|Source \{)|^    %s:$" % ((re.escape(name),) * 3), texts[path], re.M)
            elif path.startswith("tests/cases/"):
                there = re.search(r"^def %s\(" % re.escape(name), texts[path], re.M) and re.search(r"^(CASES|ALONE) = .*\b%s\b" % re.escape(name), texts[path], re.M)
            else:
                there = name in texts[path]
            if not there:
                found.append("%s: there is no test %s" % (number, test))
    found += ["%s is not in the table" % number for number in given() if number not in seen]
    found += ["%s is in the table and not a case" % number for number in seen if number not in given()]
    found += ["%s is in the table twice" % number for number in set(seen) if seen.count(number) > 1]
    return found
