//! The binary of an earlier commit, for the test of a rolling upgrade: built from the history of this clone.
//!
//! It is built in the workspace's own build folder, so that dependencies which did not change are not compiled again, under
//! a version of its own, so that cargo does not take its crates for those of today; then it is put aside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// The tests look here; without it they say that they were left out.
pub(crate) const VARIABLE: &str = "EVERHOOK_TEST_OLD_BINARY";

/// The oldest binary that may run beside today's: it knows version 3 of the schema. A release that no longer works beside
/// it, because a migration raised `compatible_from`, pins a later one.
const COMMIT: &str = "e3c4d057d93208a4730ee9012a51d491dc0469cd";
/// What it says of itself, in `everhook node list` for one.
const VERSION: &str = "0.0.1";

/// Where the old binary is, built if need be. None if there is no history to build it from, which is said.
pub(crate) fn prepare(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let short = &COMMIT[..12];
    let folder = workspace.target().join("upgrade");
    let binary = folder.join(format!("everhook-{short}"));
    if binary.is_file() {
        return Ok(Some(binary));
    }
    if let Err(reason) = check_history(workspace) {
        eprintln!("warning: the test of a rolling upgrade is left out: {reason}");
        return Ok(None);
    }
    println!("==> building the binary of commit {short}, to upgrade from");
    let source = folder.join(format!("source-{short}"));
    extract(workspace, &source)?;
    rename(&source.join("Cargo.toml"))?;
    build(workspace, &source)?;
    fs::copy(workspace.binary(), &binary).context("could not put the old binary aside")?;
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
        return Err("this is no clone, so that there is no history to build an earlier binary from".to_owned());
    }
    if !git(&["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]) {
        return Err(format!("this clone does not reach back to commit {COMMIT}: `git fetch --unshallow`"));
    }
    Ok(())
}

fn extract(workspace: &Workspace, source: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(source);
    fs::create_dir_all(source).context("could not make a folder for the old sources")?;
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

fn rename(manifest: &Path) -> Result<()> {
    let text = fs::read_to_string(manifest).context("could not read the old manifest")?;
    let own = format!("version = \"{VERSION}\"");
    let lines = text.lines().map(|line| if line.starts_with("version = ") { own.as_str() } else { line });
    fs::write(manifest, lines.collect::<Vec<_>>().join("\n") + "\n").context("could not write the old manifest")
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
