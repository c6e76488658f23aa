//! The Python environment of the contract tests, with published client libraries.
//!
//! It lives in the build folder: a second run reuses it, and `cargo clean` removes it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::debian::{self, Requirement};
use crate::workspace::Workspace;

/// Packages as `pip` names them, with their import names.
const PACKAGES: [(&str, &str); 3] =
    [("svix", "svix"), ("standardwebhooks", "standardwebhooks"), ("psycopg[binary]", "psycopg")];

const VENV: Requirement = Requirement {
    what: "Python 3 with its venv module",
    package: "python3-venv",
    otherwise: "Or set EVERHOOK_TEST_PYTHON to a Python that has the packages svix, standardwebhooks and psycopg[binary], \
                or leave the contract tests out with `cargo xtask test --fast`.",
};

/// Returns a Python that can import every package. Creates the environment if needed.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    let venv = workspace.target().join("venv");
    let python = venv.join("bin/python");
    if has_packages(&python) {
        return Ok(python);
    }
    let packages = PACKAGES.map(|(package, _)| package);
    println!("==> preparing Python with {}", packages.join(" and "));
    if !make(&venv) {
        debian::install(&VENV)?;
        if !make(&venv) {
            bail!("could not create a Python environment: see `python3 -m venv {}`", venv.display());
        }
    }
    let installed = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
        .args(packages)
        .stdin(Stdio::null())
        .status()
        .context("could not run pip")?;
    if !installed.success() || !has_packages(&python) {
        bail!("could not install {} with pip (see above): the contract tests need them", packages.join(" and "));
    }
    Ok(python)
}

fn has_packages(python: &Path) -> bool {
    succeeds(Command::new(python).args(["-c", &format!("import {}", PACKAGES.map(|(_, name)| name).join(", "))]))
}

/// Debian's Python lacks `ensurepip`, and without it `venv` fails half way: hence `--clear`.
fn make(venv: &Path) -> bool {
    succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv))
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
