//! The Python environment of the contract tests, with published client libraries.
//!
//! It lives in the build folder: a second run reuses it, and `cargo clean` removes it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::debian::{self, Requirement};
use crate::packages::Packages;
use crate::workspace::Workspace;

const VENV: Requirement = Requirement {
    what: "Python 3 with its venv module",
    package: "python3-venv",
    otherwise: "Or set EVERHOOK_TEST_PYTHON to a Python that has the packages of \
                crates/everhook/tests/contract/packages, \
                or leave the contract tests out with `cargo xtask test --fast`.",
};

/// Returns a Python that can import every package. Creates the environment if needed.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    let venv = workspace.target().join("venv");
    let python = venv.join("bin/python");
    let current = Packages::new(workspace, "requirements.txt", &venv);
    // One environment cannot hold two versions of a package: the older one gets a folder that the tests put first.
    let old = Packages::new(workspace, "requirements-svix-1.txt", &venv);
    let properties = Packages::new(workspace, "requirements-properties.txt", &venv);
    if current.are_installed() && old.are_installed() && properties.are_installed() {
        return Ok(python);
    }
    println!("==> preparing Python with the packages of the contract tests");
    if !make(&venv) {
        debian::install(&VENV)?;
        if !make(&venv) {
            bail!("could not create a Python environment: see `python3 -m venv {}`", venv.display());
        }
    }
    install(&python, &current, |pip| pip)?;
    install(&python, &properties, |pip| pip)?;
    install(&python, &old, |pip| pip.arg("--no-deps").arg("--target").arg(venv.join("svix-1")))?;
    Ok(python)
}

fn install(python: &Path, packages: &Packages, place: impl FnOnce(&mut Command) -> &mut Command) -> Result<()> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--requirement"]);
    let installed = place(pip.arg(&packages.list)).stdin(Stdio::null()).status().context("could not run pip")?;
    if !installed.success() {
        bail!("could not install {} with pip (see above): the contract tests need it", packages.list.display());
    }
    packages.mark_installed()
}

/// Debian's Python lacks `ensurepip`, and without it `venv` fails half way: hence `--clear`.
fn make(venv: &Path) -> bool {
    let mut command = Command::new("python3");
    let command = command.args(["-m", "venv", "--clear"]).arg(venv);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
