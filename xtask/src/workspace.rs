//! Paths of the workspace and its build output, and cargo commands inside a task.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Paths of the workspace, found at run time so that a moved or copied clone works at once.
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The folder of the test profile's binaries: `target/debug`.
    binaries: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let here = env::current_dir().context("could not read the current directory")?;
        let Some(root) = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file()) else {
            bail!("run `cargo xtask` inside a clone of Everhook: no xtask/Cargo.toml above {}", here.display());
        };
        let task = env::current_exe().context("could not find the path of the running task")?;
        let binaries = task.parent().context("the running task has no folder")?;
        Ok(Self { root: root.to_owned(), binaries: binaries.to_owned() })
    }

    /// Cargo's build folder. `cargo clean` removes everything that a task caches there.
    pub(crate) fn target(&self) -> PathBuf {
        self.binaries.parent().unwrap_or(&self.binaries).to_owned()
    }

    pub(crate) fn binary(&self) -> PathBuf {
        self.binaries.join("everhook")
    }

    /// Returns a cargo command in the workspace root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root);
        // `cargo run` sets these variables for the xtask package. Build scripts that watch them would see a change and
        // compile their crates again.
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(&*name);
            }
        }
        command
    }
}
