//! Node with the packages of the examples, for their tests.
//!
//! The packages live in the build folder: a second run reuses them, and `cargo clean` removes them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::debian::{self, Requirement};
use crate::workspace::Workspace;

/// The variable that passes the folder to the tests.
pub(crate) const VARIABLE: &str = "EVERHOOK_TEST_NODE_MODULES";

/// Packages as `npm` names them.
const PACKAGES: [&str; 1] = ["pg@8"];

const NPM: Requirement = Requirement {
    what: "Node with npm",
    package: "npm",
    otherwise: "Or set EVERHOOK_TEST_NODE_MODULES to a node_modules that has the package pg, \
                or leave the contract tests out with `cargo xtask test --fast`.",
};

/// Returns the folder of the packages. Installs them if needed.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target().join("node");
    let modules = folder.join("node_modules");
    if modules.join("pg").is_dir() {
        return Ok(modules);
    }
    println!("==> preparing Node with {}", PACKAGES.join(" and "));
    if !npm_exists() {
        debian::install(&NPM)?;
    }
    std::fs::create_dir_all(&folder).context("could not create a folder for Node's packages")?;
    let installed = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
        .arg(&folder)
        .args(PACKAGES)
        .stdin(Stdio::null())
        .status()
        .context("could not run npm")?;
    if !installed.success() || !modules.join("pg").is_dir() {
        bail!("could not install {} with npm (see above): the tests of the examples need them", PACKAGES.join(" and "));
    }
    Ok(modules)
}

fn npm_exists() -> bool {
    let status = Command::new("npm").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
