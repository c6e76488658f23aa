//! Versions of the published packages that tests install, pinned in `crates/everhook/tests/contract/packages`.
//!
//! A copy of each list is kept beside the installed packages. A changed list thereby installs them again.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// One list of packages and the folder into which they are installed.
pub(crate) struct Packages {
    pub(crate) list: PathBuf,
    /// A copy of the list, written once its packages are installed.
    installed: PathBuf,
}

impl Packages {
    pub(crate) fn new(workspace: &Workspace, list: &str, folder: &Path) -> Self {
        let lists = workspace.root.join("crates/everhook/tests/contract/packages");
        Self { list: lists.join(list), installed: folder.join(format!("installed-{list}")) }
    }

    pub(crate) fn are_installed(&self) -> bool {
        let read = |path| fs::read(path).ok();
        read(&self.installed).is_some_and(|installed| Some(installed) == read(&self.list))
    }

    pub(crate) fn mark_installed(&self) -> Result<()> {
        fs::copy(&self.list, &self.installed).context("could not note which packages are installed")?;
        Ok(())
    }
}
