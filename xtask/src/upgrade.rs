//! The binary of an earlier commit, built from the history of this clone, for the test of a rolling upgrade.
//!
//! It is built in the workspace's own build folder, so that unchanged dependencies are not compiled again. It gets its
//! own version, so that cargo does not confuse its crates with today's. It gets today's profiles, and today's features
//! of tokio, on which many dependencies depend. Then the binary is copied elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// The variable that passes the binary to the tests. Without it they report that they are skipped.
pub(crate) const VARIABLE: &str = "EVERHOOK_TEST_OLD_BINARY";

/// The oldest binary that may run beside today's: it knows the schema of the first release. When a migration raises
/// `compatible_from`, a later commit is pinned.
const COMMIT: &str = "c4ace77ed64fbc7fe972a7a298b7a4a58dc93b1b";
/// The version that the old binary reports, for example in `everhook node list`.
const VERSION: &str = "0.0.1";

/// Features of tokio that only tests and tools have. They apply to every crate of a build of the whole workspace.
const TOKIO_FEATURES: &str = "\"process\", \"test-util\", ";

/// Returns the old binary, and builds it if needed. Without the history to build it from, prints a warning and returns
/// `None`.
pub(crate) fn prepare(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let short = &COMMIT[..12];
    let folder = workspace.target().join("upgrade");
    let binary = folder.join(format!("everhook-{short}"));
    if binary.is_file() {
        return Ok(Some(binary));
    }
    if let Err(reason) = check_history(workspace) {
        eprintln!("warning: skipping the test of a rolling upgrade: {reason}");
        return Ok(None);
    }
    println!("==> building the binary of commit {short}, to upgrade from");
    let source = folder.join(format!("source-{short}"));
    extract(workspace, &source)?;
    let today = fs::read_to_string(workspace.root.join("Cargo.toml")).context("could not read the manifest")?;
    let manifest = source.join("Cargo.toml");
    let old = fs::read_to_string(&manifest).context("could not read the old manifest")?;
    fs::write(&manifest, adapted(&old, &today)).context("could not write the old manifest")?;
    build(workspace, &source)?;
    fs::copy(workspace.binary(), &binary).context("could not copy the old binary")?;
    fs::remove_dir_all(&source).context("could not remove the old sources")?;
    Ok(Some(binary))
}

fn check_history(workspace: &Workspace) -> Result<(), String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let command = command.args(arguments).current_dir(&workspace.root);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if !git(&["rev-parse", "--git-dir"]) {
        return Err("this is not a clone, so there is no history to build an earlier binary from".to_owned());
    }
    if !git(&["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]) {
        return Err(format!("this clone does not reach back to commit {COMMIT}: `git fetch --unshallow`"));
    }
    Ok(())
}

fn extract(workspace: &Workspace, source: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(source);
    fs::create_dir_all(source).context("could not create a folder for the old sources")?;
    let mut archive = Command::new("git");
    archive.args(["archive", "--format=tar", COMMIT]).current_dir(&workspace.root);
    let mut archive = archive.stdout(Stdio::piped()).spawn().context("could not run git")?;
    let tar = archive.stdout.take().context("git has no output")?;
    let unpacked =
        Command::new("tar").arg("-x").current_dir(source).stdin(tar).status().context("could not run tar")?;
    if !archive.wait()?.success() || !unpacked.success() {
        bail!("could not unpack the sources of commit {COMMIT} (see above)");
    }
    Ok(())
}

/// Returns the old manifest as it has to be for a build that shares its dependencies with today's.
fn adapted(old: &str, today: &str) -> String {
    let lines = old.lines().take_while(|line| !starts_profiles(line)).map(|line| match line {
        line if line.starts_with("version = ") => format!("version = \"{VERSION}\""),
        line if line.starts_with("tokio = ") => line.replace("features = [", &format!("features = [{TOKIO_FEATURES}")),
        line => line.to_owned(),
    });
    let profiles = today.lines().skip_while(|line| !starts_profiles(line)).map(str::to_owned);
    lines.chain(profiles).map(|line| line + "\n").collect()
}

/// The profiles are the last part of a manifest.
fn starts_profiles(line: &str) -> bool {
    line.starts_with("[profile.")
}

fn build(workspace: &Workspace, source: &Path) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["build", "--package", "everhook", "--bin", "everhook", "--target-dir"]).arg(workspace.target());
    let status = command.current_dir(source).stdin(Stdio::null()).status().context("could not start cargo")?;
    if !status.success() {
        bail!("the build of commit {COMMIT} failed (see above)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_manifest_gets_a_version_and_the_profiles_of_today() {
        let old = "[workspace.package]\nversion = \"0.1.0\"\n[profile.dev]\nopt-level = 3\n";
        let today =
            "version = \"0.2.0\"\n[profile.dev]\ndebug = false\n[profile.dev.package]\nsyn = { opt-level = 0 }\n";
        let adapted = adapted(old, today);
        let profiles = "[profile.dev]\ndebug = false\n[profile.dev.package]\nsyn = { opt-level = 0 }\n";
        assert_eq!(adapted, format!("[workspace.package]\nversion = \"{VERSION}\"\n{profiles}"));
    }
}
