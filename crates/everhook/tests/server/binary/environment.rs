//! The environment of the tests. No other test file reads it.

use std::path::PathBuf;
use std::process::Command;

use everhook_testkit::process::command;

#[expect(clippy::disallowed_methods, reason = "`cargo xtask test` passes its set-up in the environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn binary() -> PathBuf {
    variable("EVERHOOK_TEST_BINARY").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_everhook")), PathBuf::from)
}

/// The binary of an earlier commit, if `cargo xtask test` could build one.
pub(crate) fn old_binary() -> Option<PathBuf> {
    variable("EVERHOOK_TEST_OLD_BINARY").map(PathBuf::from)
}

/// The binary under test, without settings from the shell and without contexts of the user.
pub(crate) fn everhook() -> Command {
    let mut command = command(&binary());
    command.env("XDG_CONFIG_HOME", "/nowhere");
    command
}

/// A Python with the packages of the contract tests.
pub(crate) fn python() -> String {
    variable("EVERHOOK_TEST_PYTHON").expect(
        "EVERHOOK_TEST_PYTHON is not set: run the tests with `cargo xtask test`, \
         or set it to a Python with the packages of crates/everhook/tests/contract/packages",
    )
}

/// The packages of the Node examples and of the contract tests.
pub(crate) fn node_modules() -> PathBuf {
    let folder = variable("EVERHOOK_TEST_NODE_MODULES").expect(
        "EVERHOOK_TEST_NODE_MODULES is not set: run the tests with `cargo xtask test`, \
         or set it to a node_modules with the packages of crates/everhook/tests/contract/packages",
    );
    PathBuf::from(folder)
}

/// The program that calls a server through the svix crate.
pub(crate) fn rust_client() -> String {
    variable("EVERHOOK_TEST_RUST_CLIENT").expect(
        "EVERHOOK_TEST_RUST_CLIENT is not set: run the tests with `cargo xtask test`, \
         or set it to the built program of crates/everhook/tests/contract-rust",
    )
}

/// Path of a file in the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}
