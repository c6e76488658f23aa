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
use crate::postgres::Cluster;
use crate::workspace::Workspace;
use crate::{mutants, node, pgbouncer, python, rust_client, tidy, upgrade, web};

/// Parts of test names that mark slow tests, or tests that need more than a database; `--fast` skips them. `cargo test`
/// cannot filter by crate, so without nextest a few more tests are skipped.
const SLOW: [&str; 3] = ["crash", "contract", "upgrade"];

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
///     cargo xtask test --fast                            without crash, contract, upgrade and doc tests
///     cargo xtask test -- retry_after                    tests whose name contains retry_after
///     cargo xtask test -- -p everhook-core retry         the same, in one crate
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Skip the crash, contract, upgrade and doc tests, and their set-up.
    #[arg(long)]
    fast: bool,

    /// Arguments of `cargo nextest run` (or `cargo test`): names, -p CRATE. Skips doc tests and tidy.
    #[arg(last = true, value_name = "FILTER")]
    filter: Vec<String>,
}

impl Arguments {
    /// All tests, as in CI.
    pub(crate) fn everything() -> Self {
        Self { fast: false, filter: Vec::new() }
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
            let mut command = workspace.cargo();
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
    let mut command = workspace.cargo();
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

/// Half as many more than processors: tests wait for processes, timers and databases about a third of their time.
fn threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    processors + processors / 2
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
            let started = Cluster::start()?;
            variables.push(("EVERHOOK_TEST_DATABASE", started.url().into()));
            cluster = Some(started);
        }
        if !arguments.fast && env::var_os("EVERHOOK_TEST_PYTHON").is_none() {
            variables.push(("EVERHOOK_TEST_PYTHON", python::prepare(workspace)?.into()));
        }
        if !arguments.fast && env::var_os(node::VARIABLE).is_none() {
            variables.push((node::VARIABLE, node::prepare(workspace)?.into()));
        }
        if !arguments.fast && env::var_os(rust_client::VARIABLE).is_none() {
            variables.push((rust_client::VARIABLE, rust_client::prepare(workspace)?.into()));
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
        if wants_old_binary(arguments) && env::var_os(upgrade::VARIABLE).is_none() {
            // Built first, because today's binary is built in the same place afterwards.
            let binary = upgrade::prepare(workspace)?;
            variables.extend(binary.map(|binary| (upgrade::VARIABLE, binary.into())));
        }
        println!("==> building the binary and the tests");
        build(workspace, arguments)?;
        variables.push(("EVERHOOK_TEST_BINARY", workspace.binary().into()));
        Ok(Self { _cluster: cluster, variables })
    }

    fn variables(&self) -> impl Iterator<Item = (&'static str, &OsString)> {
        self.variables.iter().map(|(name, value)| (*name, value))
    }
}

/// Builds the binary together with the tests: one call uses one set of features, so no dependency is compiled twice.
fn build(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["build", "--bin", "everhook"]);
    if !names_a_package(arguments) {
        command.args(["--workspace", "--tests"]);
    }
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
