//! `cargo xtask callgrind`: counts instructions on the hot paths and compares them with a baseline.
//!
//! Times vary with the machine and its load; instruction counts hardly do. The comparison finds a longer path on any
//! machine, however busy. It says nothing about waiting.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// The file of recorded counts.
const BASELINE: &str = "crates/everhook-bench/callgrind.txt";
/// Tolerated increase: compilers and libraries change, and thread schedules vary.
const TOLERANCE: f64 = 0.03;
/// Two run lengths. Their difference excludes start and stop.
const MESSAGES: [u64; 2] = [1_000, 3_000];
/// Measured paths, each with the path whose count is subtracted.
const PATHS: [(&str, Option<&str>); 3] = [("append", None), ("settle", Some("append")), ("engine", None)];

/// Count instructions per message on the hot paths, and fail if they exceed the baseline.
///
/// Requires valgrind. Not part of the tests: under valgrind everything takes fifty times as long.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write the counts as the new baseline.
    #[arg(long)]
    record: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        bail!("valgrind is not installed: apt-get install valgrind (Debian), dnf install valgrind (Fedora)");
    }
    let workspace = Workspace::find()?;
    let build = ["build", "--profile", "dist", "--package", "everhook-bench", "--bin", "everhook-paths"];
    if !workspace.cargo().args(build).stdin(Stdio::null()).status()?.success() {
        bail!("the build failed (see above)");
    }
    let counted = count(&workspace.target().join("dist").join("everhook-paths"))?;
    let baseline = workspace.root.join(BASELINE);
    if arguments.record {
        let lines: String = counted.iter().map(|(path, instructions)| format!("{path} {instructions}\n")).collect();
        fs::write(&baseline, lines).with_context(|| format!("could not write {BASELINE}"))?;
        println!("recorded in {BASELINE}");
    }
    let recorded = parse(&fs::read_to_string(&baseline).with_context(|| format!("could not read {BASELINE}"))?);
    let mut longer = false;
    println!("{:<8} {:>16} {:>12} {:>8}", "PATH", "PER MESSAGE", "RECORDED", "CHANGE");
    for (path, instructions) in &counted {
        let before = recorded.get(path).copied().unwrap_or(*instructions);
        let change = *instructions as f64 / before.max(1) as f64 - 1.0;
        longer |= change > TOLERANCE;
        println!("{path:<8} {instructions:>16} {before:>12} {:>+7.1}%", change * 100.0);
    }
    if longer {
        println!("a path grew by more than {:.0} %: find the cause, or accept it with --record", TOLERANCE * 100.0);
    }
    Ok(if longer { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn count(program: &Path) -> Result<BTreeMap<String, u64>> {
    let mut counted = BTreeMap::new();
    for (path, less) in PATHS {
        let [few, many] = MESSAGES;
        let difference = instructions(program, path, many)?.saturating_sub(instructions(program, path, few)?);
        let whole = difference / (many - few);
        let part = less.and_then(|less| counted.get(less)).copied().unwrap_or(0);
        counted.insert(path.to_owned(), whole.saturating_sub(part));
    }
    Ok(counted)
}

fn instructions(program: &Path, path: &str, messages: u64) -> Result<u64> {
    eprintln!("counting {path} with {messages} messages");
    let valgrind = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let output = Command::new("valgrind").args(valgrind).arg(program).args([path, &messages.to_string()]).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{path} failed under valgrind:\n{text}");
    }
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1));
    collected
        .and_then(|count| count.trim().parse().ok())
        .with_context(|| format!("valgrind reported no count:\n{text}"))
}

fn parse(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| line.split_once(' ').and_then(|(path, count)| Some((path.to_owned(), count.parse().ok()?)));
    text.lines().filter_map(pair).collect()
}
