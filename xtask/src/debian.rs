//! Installs required Debian packages, or prints the command that would.
//!
//! Never asks for a password: without root it only prints the command.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, iter};

use anyhow::{Context, Result, bail};

/// A requirement of a task, and its Debian package.
pub(crate) struct Requirement {
    /// The missing program, as subject of "… is not installed".
    pub(crate) what: &'static str,
    pub(crate) package: &'static str,
    /// An alternative for the user, as one sentence.
    pub(crate) otherwise: &'static str,
}

/// Installs the package, or fails with the command to run.
pub(crate) fn install(requirement: &Requirement) -> Result<()> {
    let Requirement { what, package, otherwise } = requirement;
    if !is_root()? || !apt_get_exists() {
        bail!("{what} is not installed. On Debian or Ubuntu: `sudo apt-get install {package}`. {otherwise}");
    }
    println!("==> installing the package {package}: {what} is missing");
    // A new machine may have no package lists. An unreachable mirror shows in the install step.
    let _ = apt_get(&["update", "--quiet"]);
    let installed = apt_get(&["install", "--yes", "--quiet", "--no-install-recommends", package])?;
    if !installed {
        bail!("{what} is not installed, and `apt-get install {package}` failed (see above). {otherwise}");
    }
    Ok(())
}

pub(crate) fn is_root() -> Result<bool> {
    let output = Command::new("id").arg("-u").output().context("could not run `id -u`")?;
    Ok(output.stdout.trim_ascii() == b"0")
}

/// Returns the path of the program that its package is named after. Installs the package if it is missing.
pub(crate) fn program(requirement: &Requirement) -> Result<PathBuf> {
    let name = requirement.package;
    if let Some(found) = find(name) {
        return Ok(found);
    }
    install(requirement)?;
    find(name).with_context(|| format!("{name} was installed, but not found in PATH or /usr/sbin"))
}

fn find(name: &str) -> Option<PathBuf> {
    // Debian installs servers in a folder that only root has in PATH.
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(iter::once(PathBuf::from("/usr/sbin")));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn apt_get_exists() -> bool {
    Command::new("apt-get").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn apt_get(arguments: &[&str]) -> Result<bool> {
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .context("could not run apt-get")?;
    Ok(status.success())
}
