//! The program that calls a server through the svix crate, for the contract tests.
//!
//! It is a workspace of its own, so that the crate's dependencies stay out of the product's lock file.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// The variable that passes the program to the tests.
pub(crate) const VARIABLE: &str = "EVERHOOK_TEST_RUST_CLIENT";

/// Builds the program, and returns its path.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    println!("==> building the program with the svix crate");
    let target = workspace.target().join("contract-rust");
    let status = workspace
        .cargo()
        .args(["build", "--locked", "--manifest-path"])
        .arg(workspace.root.join("crates/everhook/tests/contract-rust/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .stdin(Stdio::null())
        .status()
        .context("could not start cargo")?;
    if !status.success() {
        bail!("could not build the program with the svix crate (see above): the contract tests need it");
    }
    Ok(target.join("debug/contract-rust"))
}
