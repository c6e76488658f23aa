//! Installs what a task needs from Debian's packages, where that is possible; else says what to install.
//!
//! It never asks for a password: without root it only explains.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Something a task cannot do without, and the Debian package that brings it.
pub(crate) struct Requirement {
    /// What is missing, in words that finish the sentence "… is not installed".
    pub(crate) what: &'static str,
    /// The Debian package.
    pub(crate) package: &'static str,
    /// What else the user can do about it, as one sentence.
    pub(crate) otherwise: &'static str,
}

/// Installs the requirement's package, or fails with the command that would.
pub(crate) fn install(requirement: &Requirement) -> Result<()> {
    let Requirement { what, package, otherwise } = requirement;
    if !is_root()? || !apt_get_exists() {
        bail!("{what} is not installed. On Debian or Ubuntu: `sudo apt-get install {package}`. {otherwise}");
    }
    println!("==> installing the package {package}: {what} is missing");
    // The package lists of a fresh machine are empty or old; a mirror that is out of reach shows in the install.
    let _ = apt_get(&["update", "--quiet"]);
    let installed = apt_get(&["install", "--yes", "--quiet", "--no-install-recommends", package])?;
    if !installed {
        bail!("{what} is not installed, and `apt-get install {package}` failed (see above). {otherwise}");
    }
    Ok(())
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> Result<bool> {
    let output = Command::new("id").arg("-u").output().context("could not run `id -u`")?;
    Ok(output.stdout.trim_ascii() == b"0")
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
