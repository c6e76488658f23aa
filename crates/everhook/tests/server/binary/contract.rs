//! Published Python client libraries against the real server: see `tests/contract/contract.py`.

use std::process::Command;
use std::sync::Arc;

use crate::binary::environment::{python, repository};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    the_svix_and_standardwebhooks_packages_work_unchanged,
}

const JWT_SECRET: &str = "a secret for the contract tests, of good length";

fn the_svix_and_standardwebhooks_packages_work_unchanged(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[("JWT_SECRET", JWT_SECRET), ("RETRY_SCHEDULE", "3600")]);
    let output = Command::new(python())
        .arg(repository("crates/everhook/tests/contract/contract.py"))
        .args([&server.url(), server.key()])
        .env("CONTRACT_JWT_SECRET", JWT_SECRET)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("EVERHOOK_TEST_PYTHON runs");
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{printed}{complaints}");
    assert!(output.status.success(), "the contract is broken (see above)");
    let passed = printed.lines().last().and_then(|line| line.strip_suffix(" passed"));
    assert!(passed.is_some_and(|passed| passed.parse::<u32>().is_ok_and(|passed| passed > 10)), "{printed}");
}
