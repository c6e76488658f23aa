"""Exercises every operation of the `svix` package against a real server.

    python run.py SERVER_URL JWT_SECRET [--package 1] [--crate PROGRAM] [--report FILE] [OPERATION ...]

Each exercise gets an environment of its own, whose token is signed with the server's JWT_SECRET. Names of operations
choose their exercises; without a name all run. `--package 1` takes the 1.x package from the folder `svix-1` of this
Python's environment. `--crate` calls the server through the Rust crate, with the program of `contract-rust`. `--report`
writes the results for `compatibility.py`, which compares them with `claims.json`.

The server needs the retry schedule `0,0,0,5`: exercises watch deliveries that wait for a retry or are given up.
"""

import argparse
import concurrent.futures
import importlib.metadata
import json
import pathlib
import sys
import time
import tomllib
import traceback

RUST = pathlib.Path(__file__).parents[2] / "contract-rust"

# Exercises mostly wait for the server.
WORKERS = 12

MODULES = [
    "application",
    "authentication",
    "background_task",
    "endpoint",
    "endpoint_headers",
    "endpoint_replay",
    "endpoint_stats",
    "environment",
    "event_type",
    "integration",
    "message",
    "message_attempt",
    "message_poller",
    "operational_webhook",
    "statistics",
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server_url")
    parser.add_argument("jwt_secret")
    parser.add_argument("--package", choices=["1", "2"], default="2")
    parser.add_argument("--crate")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("operations", nargs="*")
    arguments = parser.parse_args()
    if arguments.package == "1":
        use_old_package()

    import dialect
    import harness

    for module in MODULES:
        importlib.import_module(f"operations.{module}")
    chosen = arguments.operations or list(harness.EXERCISES)
    language, version, methods, client = package(arguments, dialect)
    server = harness.Server(arguments.server_url, arguments.jwt_secret, client)
    results = {operation: new_result(operation in methods) for operation in chosen}
    work = [(operation, function) for operation in chosen for function in harness.EXERCISES[operation]]
    work = [(operation, function) for operation, function in work if operation in methods]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for operation, (problem, seconds) in pool.map(lambda one: (one[0], run(one[1], harness.World(server))), work):
            add(results[operation], problem, seconds)
    for operation, result in results.items():
        print(f"{result['state']:<7} {operation} ({result['seconds']:.2f} s)\n{result['problem']}", end="", flush=True)
    if arguments.report:
        report = {"package": language, "version": version, "methods": sorted(methods), "results": results}
        arguments.report.write_text(json.dumps(report, indent=1))
    passed = sum(result["state"] == "passed" for result in results.values())
    print(f"svix {version} for {language}: {passed} of {len(results)} operations passed")


def package(arguments, dialect):
    """Returns the language of the package, its version, the names of its methods, and a function that makes clients."""
    if arguments.crate is None:
        client = lambda token: dialect.client(token, arguments.server_url)
        return "python", importlib.metadata.version("svix"), dialect.methods(), client

    import bridge

    manifest = tomllib.loads((RUST / "Cargo.toml").read_text())
    version = manifest["dependencies"]["svix"]["version"].lstrip("=")
    running = bridge.Bridge(arguments.crate, arguments.server_url)
    return "rust", version, running.operations, running.client


def use_old_package():
    folder = pathlib.Path(sys.prefix, "svix-1")
    if not folder.is_dir():
        sys.exit(f"{folder} does not exist: `cargo xtask test` installs the package there")
    sys.path.insert(0, str(folder))


def run(function, world):
    """Runs an exercise, and returns its problem and its duration."""
    started, problem = time.monotonic(), ""
    try:
        function(world)
    except Exception:
        problem = traceback.format_exc(limit=-4)
    return problem, time.monotonic() - started


def new_result(exists):
    return {"state": "passed" if exists else "absent", "problem": "", "seconds": 0}


def add(result, problem, seconds):
    result["state"] = "failed" if problem else result["state"]
    result["problem"] += problem
    result["seconds"] += seconds


if __name__ == "__main__":
    main()
