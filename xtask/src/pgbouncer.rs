//! Finds pgbouncer for the tests of a pooler, installing it where that is possible.

use std::path::PathBuf;
use std::{env, iter};

use anyhow::{Context, Result};

use crate::debian::{self, Requirement};

/// The tests look here.
pub(crate) const VARIABLE: &str = "EVERHOOK_TEST_PGBOUNCER";

const PGBOUNCER: Requirement = Requirement {
    what: "pgbouncer",
    package: "pgbouncer",
    otherwise: "Or set EVERHOOK_TEST_PGBOUNCER to where it is.",
};

/// Where pgbouncer is.
pub(crate) fn prepare() -> Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    debian::install(&PGBOUNCER)?;
    find().context("pgbouncer was installed, but is not where expected")
}

fn find() -> Option<PathBuf> {
    // Debian puts it where only root looks.
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(iter::once(PathBuf::from("/usr/sbin")));
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.is_file())
}
