//! Finds pgbouncer for the tests of a pooler, and installs it if possible.

use std::path::PathBuf;

use anyhow::Result;

use crate::debian::{self, Requirement};

/// The variable that passes the program to the tests.
pub(crate) const VARIABLE: &str = "EVERHOOK_TEST_PGBOUNCER";

const PGBOUNCER: Requirement =
    Requirement { what: "pgbouncer", package: "pgbouncer", otherwise: "Or set EVERHOOK_TEST_PGBOUNCER to its path." };

pub(crate) fn prepare() -> Result<PathBuf> {
    debian::program(&PGBOUNCER)
}
