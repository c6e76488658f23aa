//! Finds pgbouncer for the tests of a pooler, and installs it if possible.

use std::path::PathBuf;
use std::{env, iter};

use anyhow::{Context, Result};

use crate::debian::{self, Requirement};

/// The variable that passes the program to the tests.
pub(crate) const VARIABLE: &str = "EVERHOOK_TEST_PGBOUNCER";

const PGBOUNCER: Requirement =
    Requirement { what: "pgbouncer", package: "pgbouncer", otherwise: "Or set EVERHOOK_TEST_PGBOUNCER to its path." };

pub(crate) fn prepare() -> Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    debian::install(&PGBOUNCER)?;
    find().context("pgbouncer was installed, but not found in PATH or /usr/sbin")
}

fn find() -> Option<PathBuf> {
    // Debian installs it in a folder that only root has in PATH.
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(iter::once(PathBuf::from("/usr/sbin")));
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.is_file())
}
