//! Node with the packages of the examples and of the contract tests.
//!
//! The packages live in the build folder: a second run reuses them, and `cargo clean` removes them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::debian::{self, Requirement};
use crate::packages::Packages;
use crate::workspace::Workspace;

/// The variable that passes the folder to the tests.
pub(crate) const VARIABLE: &str = "EVERHOOK_TEST_NODE_MODULES";

const NPM: Requirement = Requirement {
    what: "Node with npm",
    package: "npm",
    otherwise: "Or set EVERHOOK_TEST_NODE_MODULES to a node_modules that has the packages of \
                crates/everhook/tests/contract/packages, \
                or leave the contract tests out with `cargo xtask test --fast`.",
};

/// Options of npm for every installation. Without the last ones, npm tries an unreachable registry for many minutes and
/// prints nothing.
pub(crate) const INSTALL: [&str; 6] = [
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    "--fetch-retries=2",
    "--fetch-timeout=60000",
    "--fetch-retry-maxtimeout=10000",
];

/// Returns the folder of the packages. Installs them if needed.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target().join("node");
    let packages = Packages::new(workspace, "package.json", &folder);
    if packages.are_installed() {
        return Ok(folder.join("node_modules"));
    }
    println!("==> preparing Node with the packages of the contract tests");
    ensure_npm()?;
    fs::create_dir_all(&folder).context("could not create a folder for Node's packages")?;
    fs::copy(&packages.list, folder.join("package.json")).context("could not copy the list of Node's packages")?;
    let installed = Command::new("npm")
        .arg("install")
        .args(INSTALL)
        .args(["--no-package-lock", "--prefix"])
        .arg(&folder)
        .stdin(Stdio::null())
        .status()
        .context("could not run npm")?;
    if !installed.success() {
        bail!("could not install {} with npm (see above): the contract tests need it", packages.list.display());
    }
    packages.mark_installed()?;
    Ok(folder.join("node_modules"))
}

/// Installs npm if it is missing.
pub(crate) fn ensure_npm() -> Result<()> {
    if npm_exists() { Ok(()) } else { debian::install(&NPM) }
}

fn npm_exists() -> bool {
    let status = Command::new("npm").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
