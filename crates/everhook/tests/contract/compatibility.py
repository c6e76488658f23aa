"""Compares the results of all client packages with `claims.json`, and both with `docs/api-compatibility.md`.

    python compatibility.py [--write] REPORT ...

A report is the result of `python/run.py` or `javascript/run.mjs`. The comparison fails if a claimed operation does not
work with a package, if an operation works that is not claimed, if a package gained or lost a method, or if the table or
the number in the README is out of date. `--write` rewrites both; claims are changed by hand, because a claim is a
promise to users.
"""

import argparse
import json
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).parent
CLAIMS = FOLDER / "claims.json"
REPOSITORY = FOLDER.parents[3]
TABLE = REPOSITORY / "docs" / "api-compatibility.md"
README = REPOSITORY / "README.md"
NUMBER = re.compile(r"\d+ of the \d+ methods of the client work")
REWRITE = "EVERHOOK_TEST_BLESS=1 cargo xtask test -- contract"

LANGUAGES = {"python": "Python", "javascript": "JavaScript", "rust": "Rust"}

CELLS = {"passed": "yes", "failed": "", "absent": "–"}

# Reports that a comparison needs. The first one has the newest methods, and thereby the rows of the table.
PACKAGES = ["python 2", "python 1", "javascript 2", "javascript 1", "rust 2"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("reports", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    claims = json.loads(CLAIMS.read_text())
    reports = {name(report): report for report in (json.loads(path.read_text()) for path in arguments.reports)}
    if sorted(reports) != sorted(PACKAGES):
        sys.exit(f"reports of {PACKAGES} are needed, not of {sorted(reports)}")
    reports = {package: reports[package] for package in PACKAGES}
    problems = [*list_problems(claims, reports), *result_problems(claims, reports)]
    # Only claims that are kept are worth writing down.
    problems = problems or page_problems(claims, reports, arguments.write)
    print("\n".join([*problems, f"{len(problems)} problems"]))
    sys.exit(1 if problems else 0)


def page_problems(claims, reports, write):
    """Rewrites the pages with results, or finds those that are out of date."""
    number = f"{len(claims['works'])} of the {len(reports[PACKAGES[0]]['methods'])} methods of the client work"
    readme, found = NUMBER.subn(number, README.read_text())
    if found != 1:
        return [f"README.md does not say how many methods work: {number}"]
    pages = {TABLE: render(claims, reports), README: readme}
    if write:
        for path, text in pages.items():
            path.write_text(text)
        return []
    old = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    return [f"{path.relative_to(REPOSITORY)} is out of date: run `{REWRITE}`" for path in old]


def name(report):
    return f"{report['package']} {report['version'].split('.')[0]}"


def title(report):
    return f"{LANGUAGES[report['package']]} {report['version']}"


def reason(claims, method):
    """Returns why a method is out. An entry covers a method, or all methods of a resource."""
    for entry, why in claims["out"].items():
        if method == entry or method.startswith(f"{entry}."):
            return why
    return None


def list_problems(claims, reports):
    """Finds methods without an exercise, and entries of the lists that name nothing."""
    methods = reports[PACKAGES[0]]["methods"]
    wanted = {method for method in methods if reason(claims, method) is None}
    for package, report in reports.items():
        exercised = set(report["results"])
        for method in sorted(wanted - exercised):
            yield f"{method}: {title(report)} has no exercise; write one, or list it under `out` in claims.json"
        for method in sorted(exercised - wanted):
            yield f"{method}: {title(report)} has an exercise, but the method is out or does not exist"
        absent = {method for method, result in report["results"].items() if result["state"] == "absent"}
        listed = set(claims["absent"].get(package, []))
        for method in sorted(absent ^ listed):
            where = "lacks the method" if method in absent else "has the method"
            yield f"{method}: {title(report)} {where}; correct `absent` in claims.json"
    for method in sorted(set(claims["works"]) - wanted):
        yield f"{method}: is claimed, but is out or does not exist"
    for entry in claims["out"]:
        if not any(method == entry or method.startswith(f"{entry}.") for method in methods):
            yield f"{entry}: is out, but does not exist"


def result_problems(claims, reports):
    """Finds claims that are not kept, and operations that work without a claim."""
    for report in reports.values():
        for method, result in report["results"].items():
            claimed = method in claims["works"]
            if claimed and result["state"] == "failed":
                yield f"{method}: is claimed, but fails with {title(report)}\n{result['problem']}"
            if not claimed and result["state"] == "passed":
                yield f"{method}: works with {title(report)}; add it to `works` in claims.json"


def state(claims, method):
    if method in claims["works"]:
        return "works"
    return "planned" if reason(claims, method) is None else "out"


def render(claims, reports):
    methods = reports[PACKAGES[0]]["methods"]
    states = [state(claims, method) for method in methods]
    titles = [title(report) for report in reports.values()]
    lines = [
        "# Operations of the Svix clients that Everhook has",
        "",
        f"The Python package `svix` {reports[PACKAGES[0]]['version']} has {len(methods)} methods:",
        f"**{states.count('works')} work**, {states.count('planned')} are planned,"
        f" {states.count('out')} are out of scope.",
        "",
        "An operation works if the contract tests call it with every package below, on SQLite and on PostgreSQL, and",
        "each field of the answer is right. The tests compare this page with their results. To rewrite it, run",
        f"`{REWRITE}`.",
        "",
        "See [Use the Svix client libraries](compatibility.md) for fields, differences and tokens.",
        "",
        "## Works or planned",
        "",
        "A dash means that the package lacks the method.",
        "",
        f"| method | state | {' | '.join(titles)} |",
        f"|---|---|{'---|' * len(titles)}",
    ]
    for method in methods:
        if state(claims, method) != "out":
            cells = [CELLS[report["results"][method]["state"]] for report in reports.values()]
            lines.append(f"| `{method}` | {state(claims, method)} | {' | '.join(cells)} |")
    lines += ["", "## Out of scope", "", "| method | reason |", "|---|---|"]
    lines += [f"| `{method}` | {reason(claims, method)} |" for method in methods if state(claims, method) == "out"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
