//! `cargo xtask ci`: all checks of a change, the fastest first.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::test;
use crate::workspace::Workspace;

pub(crate) fn run() -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    step(workspace.cargo().args(["fmt", "--all", "--check"]), "run `cargo fmt --all`")?;
    if has_deny(&workspace) {
        step(workspace.cargo().args(["deny", "check"]), "deny.toml lists the allowed dependencies")?;
    } else {
        println!("==> skipping `cargo deny check`: cargo-deny is not installed");
    }
    test::run(&test::Arguments::everything())
}

fn step(command: &mut Command, remedy: &str) -> Result<()> {
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let line = format!("cargo {}", arguments.join(" "));
    println!("==> {line}");
    let status = command.stdin(Stdio::null()).status().context("could not start cargo")?;
    if !status.success() {
        bail!("`{line}` failed: {remedy}");
    }
    Ok(())
}

fn has_deny(workspace: &Workspace) -> bool {
    let mut command = workspace.cargo();
    let status = command.args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
