//! Published client packages against the real server: Python and JavaScript, their current release and 1.x, and Rust.
//!
//! `tests/contract/python/contract.py` has cases about the product. The other programs in `tests/contract/python` and
//! `tests/contract/javascript` exercise every operation, the former also through the crate in `tests/contract-rust`.
//! `tests/contract/compatibility.py` compares their results with `claims.json` and `docs/api-compatibility.md`.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::Arc;

use everhook_testkit::length::length;

use crate::binary::environment::{node_modules, python, repository, rust_client, variable};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    the_svix_and_standardwebhooks_packages_work_unchanged,
    every_package_finds_the_operations_that_are_claimed,
    every_answer_to_random_requests_matches_the_document,
}

const JWT_SECRET: &str = "a secret for the contract tests, of good length";

/// Exercises watch deliveries that wait for a retry, and deliveries that are given up after five attempts.
const RETRY_SCHEDULE: &str = "0,0,0,5";

fn the_svix_and_standardwebhooks_packages_work_unchanged(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[("JWT_SECRET", JWT_SECRET), ("RETRY_SCHEDULE", "3600")]);
    let mut command = python_program("python/contract.py");
    command.args([&server.url(), server.key()]).env("CONTRACT_JWT_SECRET", JWT_SECRET);
    let output = command.output().expect("EVERHOOK_TEST_PYTHON runs");
    let printed = show(&output);
    assert!(output.status.success(), "the contract is broken (see above)");
    let passed = printed.lines().last().and_then(|line| line.strip_suffix(" passed"));
    assert!(passed.is_some_and(|passed| passed.parse::<u32>().is_ok_and(|passed| passed > 10)), "{printed}");
}

fn every_package_finds_the_operations_that_are_claimed(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[("JWT_SECRET", JWT_SECRET), ("RETRY_SCHEDULE", RETRY_SCHEDULE)]);
    let folder = tempfile::tempdir().unwrap();
    let start = |report: &str, mut command: Command| Exercises::start(folder.path(), report, &mut command);
    // The programs mostly wait for the server, so they run side by side.
    let running = [
        start("python-2", python_exercises(&server, "2")),
        start("python-1", python_exercises(&server, "1")),
        start("javascript-2", javascript_exercises(&server, "svix-2")),
        start("javascript-1", javascript_exercises(&server, "svix-1")),
        start("rust-2", rust_exercises(&server)),
    ];
    let reports = running.map(|exercises| exercises.wait(folder.path()));
    let mut command = python_program("compatibility.py");
    command.args(variable("EVERHOOK_TEST_BLESS").map(|_| "--write"));
    let output = command.args(reports).current_dir(folder.path()).output().expect("EVERHOOK_TEST_PYTHON runs");
    show(&output);
    assert!(output.status.success(), "packages and claims differ (see above)");
}

/// The program sends a bounded number of requests from a fixed seed to every route. Most of its time is Python's, so
/// only a long run sends both kinds of requests to both stores.
fn every_answer_to_random_requests_matches_the_document(backend: Arc<Backend>) {
    // A node with the role `api` sends nothing to the random URLs of endpoints. The embedded store has one node.
    let (role, usual) = match *backend {
        Backend::Sqlite(_) => ("all", "fuzzing"),
        _ => ("api", "coverage"),
    };
    let server = Server::start(&backend, &[("JWT_SECRET", JWT_SECRET), ("ROLE", role)]);
    let key = backend.run(&["key", "create", "--admin"]);
    let mut command = python_program("properties/run.py");
    command.args([&*server.url(), key.trim(), "1", length(usual, "coverage,fuzzing")]);
    let output = command.output().expect("EVERHOOK_TEST_PYTHON runs");
    show(&output);
    assert!(output.status.success(), "answers differ from openapi.json (see above)");
}

/// A running program that writes a report.
struct Exercises {
    report: String,
    process: Child,
}

impl Exercises {
    fn start(folder: &Path, report: &str, command: &mut Command) -> Exercises {
        let printed = File::create(folder.join(format!("{report}.log"))).unwrap();
        let command = command.args(["--report", &format!("{report}.json")]).current_dir(folder);
        let command = command.stdout(printed.try_clone().unwrap()).stderr(printed);
        Exercises { report: report.to_owned(), process: command.spawn().expect("the program starts") }
    }

    /// Waits for the program, and returns the name of its report.
    fn wait(mut self, folder: &Path) -> String {
        let status = self.process.wait().unwrap();
        let printed = fs::read_to_string(folder.join(format!("{}.log", self.report))).unwrap();
        assert!(status.success(), "{} ended with {status}\n{printed}", self.report);
        format!("{}.json", self.report)
    }
}

fn python_exercises(server: &Server, package: &str) -> Command {
    let mut command = python_program("python/run.py");
    command.args([&server.url(), JWT_SECRET, "--package", package]);
    command
}

/// The exercises in Python call the server through the svix crate.
fn rust_exercises(server: &Server) -> Command {
    let mut command = python_exercises(server, "2");
    command.args(["--crate", &rust_client()]);
    command
}

fn javascript_exercises(server: &Server, package: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(repository("crates/everhook/tests/contract/javascript/run.mjs"));
    command.args([&server.url(), JWT_SECRET]).arg(node_modules()).args(["--package", package]);
    command
}

fn python_program(path: &str) -> Command {
    let mut command = Command::new(python());
    command.arg(repository("crates/everhook/tests/contract").join(path)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Prints the output of a program, and returns its standard output.
fn show(output: &Output) -> String {
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{printed}{complaints}");
    printed.into_owned()
}
