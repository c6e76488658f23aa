//! `cargo xtask web`: builds the dashboard, and the checks of its sources for `cargo xtask test`.
//!
//! The built files are committed, so that the binary needs no Node to build. A test builds them again and compares.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::count::Counts;
use crate::debian::{self, Requirement};
use crate::node;
use crate::workspace::Workspace;

/// The variable that passes the browser to the tests.
pub(crate) const CHROMIUM_VARIABLE: &str = "EVERHOOK_TEST_CHROMIUM";

const CHROMIUM: Requirement =
    Requirement { what: "Chromium", package: "chromium", otherwise: "Or set EVERHOOK_TEST_CHROMIUM to its path." };

/// `cargo xtask web`.
pub(crate) fn run() -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let web = prepare(&workspace)?;
    npm(&web, &["run", "build"])?;
    println!("wrote web/dist: commit it with the sources");
    Ok(ExitCode::SUCCESS)
}

/// Installs the packages of the dashboard, unless the right ones are there. Returns the folder of the sources.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    let web = workspace.root.join("web");
    let (lock, installed) = (web.join("package-lock.json"), web.join("node_modules/.everhook-lock"));
    let read = |path: &Path| fs::read(path).ok();
    if read(&installed).is_some_and(|installed| Some(installed) == read(&lock)) {
        return Ok(web);
    }
    println!("==> installing the packages of the dashboard");
    node::ensure_npm()?;
    npm(&web, &[&["ci"], &node::INSTALL[..]].concat())?;
    fs::copy(&lock, &installed).context("could not note which packages are installed")?;
    Ok(web)
}

/// Returns the path of the browser, and installs it if possible.
pub(crate) fn chromium() -> Result<PathBuf> {
    debian::program(&CHROMIUM)
}

/// Lints, checks types, runs the unit tests, and compares the built files with the sources. Each is one test.
pub(crate) fn check(workspace: &Workspace) -> Result<Counts> {
    let web = prepare(workspace)?;
    let mut counts = Counts::default();
    let steps: [(&str, &dyn Fn() -> Result<()>); 4] = [
        ("the sources follow the format and lint rules", &|| npm(&web, &["run", "lint"])),
        ("the types are right", &|| npm(&web, &["run", "typecheck"])),
        ("the unit tests pass", &|| npm(&web, &["run", "test"])),
        ("web/dist is what the sources give", &|| compare(workspace, &web)),
    ];
    for (name, step) in steps {
        match step() {
            Ok(()) => {
                counts.passed += 1;
                println!("ok    {name}");
            }
            Err(error) => {
                counts.failed += 1;
                println!("FAIL  {name}: {error:#}");
            }
        }
    }
    Ok(counts)
}

fn compare(workspace: &Workspace, web: &Path) -> Result<()> {
    let fresh = workspace.target().join("web-dist");
    let folder = fresh.to_str().context("the build folder has an odd name")?;
    npm(web, &["run", "schema", "--", "--check"])?;
    npm(web, &["exec", "--", "vite", "build", "--logLevel", "error", "--emptyOutDir", "--outDir", folder])?;
    let (committed, built) = (files(&web.join("dist"))?, files(&fresh)?);
    let differs = |name: &&String| committed.get(*name) != built.get(*name);
    if let Some(name) = committed.keys().chain(built.keys()).find(differs) {
        bail!("{name} differs: run `cargo xtask web` and commit web/dist");
    }
    Ok(())
}

/// Returns the content of every file below a folder, by path.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("could not read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder)?.display().to_string();
                found.insert(name, fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

fn npm(web: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new("npm")
        .args(arguments)
        .current_dir(web)
        .stdin(Stdio::null())
        .status()
        .context("could not run npm: is Node installed?")?;
    if !status.success() {
        bail!("`npm {}` failed (see above)", arguments.join(" "));
    }
    Ok(())
}
