//! `cargo xtask test`: prepares the environment of the tests, runs them all, and prints one summary.
//!
//! The environment is a PostgreSQL, a pgbouncer, client libraries for Python, Node and Rust, today's binary and an
//! earlier one, each passed in a variable. It requires only Rust, Python and Node, and leaves nothing behind outside
//! the build folder.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::num::NonZero;
use std::process::{Command, ExitCode, Stdio};
use std::{env, iter, thread};

use anyhow::{Context, Result, bail};

use crate::count::{self, Counts};
use crate::postgres::{Cluster, Files};
use crate::workspace::Workspace;
use crate::{mutants, node, pgbouncer, python, rust_client, tidy, upgrade, web};

/// Parts of test names that mark slow tests, or tests that need more than a database; `--fast` skips them. `cargo test`
/// cannot filter by crate, so without nextest a few more tests are skipped.
const SLOW: [&str; 3] = ["crash", "contract", "upgrade"];

/// Tells the tests to run at full length.
const LONG: &str = "EVERHOOK_TEST_LONG";

/// How many tests nextest runs at a time.
const THREADS: &str = "NEXTEST_TEST_THREADS";

/// Run every test, with all the set-up they need.
///
/// Uses the PostgreSQL in EVERHOOK_TEST_DATABASE if set. Otherwise starts a temporary one from the installed programs,
/// or installs the package (as root on Debian), or prints what to install. Prepares the client libraries for Python,
/// Node and Rust, builds the binary (and an earlier one to upgrade from), and runs all tests, doc tests and `tidy`. The
/// last line is the total.
///
///     cargo xtask test                                   everything, as CI does
///     cargo xtask test --lint                            the same, and clippy on everything, in one compilation
///     cargo xtask test --long                            more kills, random requests and screens
///     cargo xtask test --fast                            without crash, contract, upgrade and doc tests
///     cargo xtask test -- retry_after                    tests whose name contains retry_after
///     cargo xtask test -- -p everhook-core retry         the same, in one crate
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Skip the crash, contract, upgrade and doc tests, and their set-up.
    #[arg(long)]
    fast: bool,

    /// Run the tests that have two lengths at the longer one. Sets EVERHOOK_TEST_LONG.
    #[arg(long, conflicts_with = "fast")]
    long: bool,

    /// Compile with clippy; a warning in any target of the workspace is an error.
    #[arg(long)]
    lint: bool,

    /// Arguments of `cargo nextest run` (or `cargo test`): names, -p CRATE. Skips doc tests and tidy.
    #[arg(last = true, value_name = "FILTER")]
    filter: Vec<String>,
}

impl Arguments {
    /// All tests and lints, as in CI.
    pub(crate) fn everything() -> Self {
        Self { fast: false, long: false, lint: true, filter: Vec::new() }
    }

    /// Returns a cargo command. All commands that compile the workspace use it, so that it is compiled once.
    fn cargo(&self, workspace: &Workspace) -> Result<Command> {
        if self.lint { workspace.linting_cargo() } else { Ok(workspace.cargo()) }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let steps = match SetUp::prepare(&workspace, arguments) {
        Ok(set_up) => run_steps(&workspace, arguments, &set_up)?,
        Err(error) => {
            eprintln!("error: {error:#}");
            vec![("set-up", Counts::FAILED_ONCE)]
        }
    };
    Ok(summarise(&steps))
}

type Step = (&'static str, Counts);

fn run_steps(workspace: &Workspace, arguments: &Arguments, set_up: &SetUp) -> Result<Vec<Step>> {
    let mut steps = vec![("tests", run_tests(workspace, arguments, set_up)?)];
    if arguments.filter.is_empty() {
        if !arguments.fast {
            println!("==> running the doc tests");
            let mut command = arguments.cargo(workspace)?;
            command.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
            steps.push(("doc tests", count::cargo_test(command.envs(set_up.variables()))?));
        }
        if !arguments.fast {
            println!("==> checking the dashboard");
            steps.push(("dashboard", web::check(workspace)?));
        }
        println!("==> checking that the tree is tidy");
        steps.push(("tidy", tidy::check(workspace)?));
        println!("==> checking that every mutant applies");
        steps.push(("mutants", mutants::check(workspace)?));
    }
    Ok(steps)
}

fn run_tests(workspace: &Workspace, arguments: &Arguments, set_up: &SetUp) -> Result<Counts> {
    let mut command = arguments.cargo(workspace)?;
    command.envs(set_up.variables());
    if has_nextest(workspace) {
        println!("==> running the tests");
        command.args(["nextest", "run", "--no-fail-fast"]).args(packages(arguments)).args(&arguments.filter);
        if arguments.fast {
            let slow = SLOW.map(|name| format!("test({name})"));
            command.args(["-E", &format!("not (binary(server) and ({}))", slow.join(" or "))]);
        }
        if io::stderr().is_terminal() {
            command.arg("--color=always");
        }
        if env::var_os(THREADS).is_none() {
            command.env(THREADS, threads().to_string());
        }
        return count::nextest(&mut command);
    }
    println!("==> running the tests with `cargo test`; cargo-nextest would be faster");
    command.args(["test", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    command.args(packages(arguments)).args(&arguments.filter);
    if arguments.fast {
        command.arg("--").args(SLOW.iter().flat_map(|name| ["--skip", name]));
    }
    count::cargo_test(&mut command)
}

/// Twice as many as processors: tests wait for processes, timers and databases about half of their time.
fn threads() -> usize {
    2 * thread::available_parallelism().map_or(1, NonZero::get)
}

fn summarise(steps: &[Step]) -> ExitCode {
    let total: Counts = steps.iter().map(|(_, counts)| *counts).sum();
    println!("\n==> summary");
    for (name, counts) in steps {
        println!("{name:<10} {counts}");
    }
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The environment of the tests. Dropping it stops the temporary database.
struct SetUp {
    _cluster: Option<Cluster>,
    variables: Vec<(&'static str, OsString)>,
}

impl SetUp {
    fn prepare(workspace: &Workspace, arguments: &Arguments) -> Result<Self> {
        let mut variables = Vec::new();
        let mut cluster = None;
        if env::var_os("EVERHOOK_TEST_DATABASE").is_some() {
            println!("==> using the PostgreSQL in EVERHOOK_TEST_DATABASE");
        } else {
            println!("==> starting a throwaway PostgreSQL");
            let started = Cluster::start(Files::InMemory)?;
            variables.push(("EVERHOOK_TEST_DATABASE", started.url().into()));
            cluster = Some(started);
        }
        if arguments.long {
            variables.push((LONG, "1".into()));
        }
        // Downloads wait for the network, and builds for the processors.
        let (installed, built) = thread::scope(|scope| {
            let installing = scope.spawn(|| install(workspace, arguments));
            let built = build_all(workspace, arguments);
            (installing.join().expect("installing does not panic"), built)
        });
        variables.extend(installed?);
        variables.extend(built?);
        Ok(Self { _cluster: cluster, variables })
    }

    fn variables(&self) -> impl Iterator<Item = (&'static str, &OsString)> {
        self.variables.iter().map(|(name, value)| (*name, value))
    }
}

type Variables = Vec<(&'static str, OsString)>;

/// Prepares the programs and packages around the tests.
fn install(workspace: &Workspace, arguments: &Arguments) -> Result<Variables> {
    let mut variables = Variables::new();
    if !arguments.fast && env::var_os("EVERHOOK_TEST_PYTHON").is_none() {
        variables.push(("EVERHOOK_TEST_PYTHON", python::prepare(workspace)?.into()));
    }
    if !arguments.fast && env::var_os(node::VARIABLE).is_none() {
        variables.push((node::VARIABLE, node::prepare(workspace)?.into()));
    }
    if !arguments.fast && env::var_os(web::CHROMIUM_VARIABLE).is_none() {
        variables.push((web::CHROMIUM_VARIABLE, web::chromium()?.into()));
        // The tests in the browser are programs of the dashboard's folder.
        web::prepare(workspace)?;
    }
    if env::var_os(pgbouncer::VARIABLE).is_none() {
        match pgbouncer::prepare() {
            Ok(program) => variables.push((pgbouncer::VARIABLE, program.into())),
            // Only the tests of a pooler need it, and report that they are skipped.
            Err(error) => eprintln!("warning: {error:#}"),
        }
    }
    // It has a build folder of its own, and uses the processor that the build of the tests often leaves idle.
    if !arguments.fast && env::var_os(rust_client::VARIABLE).is_none() {
        variables.push((rust_client::VARIABLE, rust_client::prepare(workspace)?.into()));
    }
    Ok(variables)
}

/// Builds the tests and the binaries that they run.
fn build_all(workspace: &Workspace, arguments: &Arguments) -> Result<Variables> {
    let mut variables = Variables::new();
    if wants_old_binary(arguments) && env::var_os(upgrade::VARIABLE).is_none() {
        // Built first, because today's binary is built in the same place afterwards.
        let binary = upgrade::prepare(workspace)?;
        variables.extend(binary.map(|binary| (upgrade::VARIABLE, binary.into())));
    }
    println!("==> building the binary and the tests");
    build(workspace, arguments)?;
    variables.push(("EVERHOOK_TEST_BINARY", workspace.binary().into()));
    Ok(variables)
}

/// Builds the binary together with the tests: one call uses one set of features, so no dependency is compiled twice.
fn build(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let mut command = arguments.cargo(workspace)?;
    command.arg("build");
    match (names_a_package(arguments), arguments.lint) {
        (true, _) => command.args(["--bin", "everhook"]),
        (false, false) => command.args(["--bin", "everhook", "--workspace", "--tests"]),
        // Lints apply to examples and to binaries without tests, too.
        (false, true) => command.args(["--workspace", "--all-targets", "--locked"]),
    };
    let status = command.stdin(Stdio::null()).status().context("could not start cargo")?;
    if !status.success() {
        bail!("the build failed (see above)");
    }
    Ok(())
}

/// All crates, unless one is named.
fn packages(arguments: &Arguments) -> impl Iterator<Item = &'static str> {
    iter::once("--workspace").filter(|_| !names_a_package(arguments))
}

/// An old binary takes long to build the first time, and only one test needs it.
fn wants_old_binary(arguments: &Arguments) -> bool {
    let named = arguments.filter.iter().any(|argument| argument.contains("upgrade"));
    named || (!arguments.fast && arguments.filter.is_empty())
}

fn names_a_package(arguments: &Arguments) -> bool {
    arguments.filter.iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
}

fn has_nextest(workspace: &Workspace) -> bool {
    let mut command: Command = workspace.cargo();
    let status = command.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
