//! The dashboard in a real browser: the tests of `web/e2e` against the real server, on both stores.
//!
//! Only a long run repeats on PostgreSQL the tests of screens: a screen shows the answers of the API, whose tests cover
//! both stores.

use std::process::Command;
use std::sync::Arc;

use everhook_testkit::length::length;

use crate::binary::environment::{repository, variable};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! { contract_the_dashboard_works_in_a_browser }

fn contract_the_dashboard_works_in_a_browser(backend: Arc<Backend>) {
    let chromium = variable("EVERHOOK_TEST_CHROMIUM").expect(
        "EVERHOOK_TEST_CHROMIUM is not set: run the tests with `cargo xtask test`, or set it to a Chromium \
         and run `npm install` in web/",
    );
    // The journey watches a delivery die and brings it back.
    // The receiver plays a chat platform, too.
    let settings = [("RETRY_SCHEDULE", "1,1"), ("EGRESS_ALLOW", "127.0.0.0/8"), ("CHAT_HOSTS", "127.0.0.1")];
    let server = Server::start(&backend, &settings);
    let (store, extent) = match *backend {
        Backend::Sqlite(_) => ("sqlite", length("usual", "everything")),
        _ => ("postgres", length("journeys", "usual")),
    };
    let output = Command::new("node")
        .arg("e2e/run.mjs")
        .current_dir(repository("web"))
        .env("CHROMIUM", chromium)
        .env("EVERHOOK_URL", server.url())
        .env("EVERHOOK_KEY", server.key())
        .env("EVERHOOK_EXTENT", extent)
        .env("EVERHOOK_SHOTS", repository("target/dashboard").join(store))
        .output()
        .expect("node runs");
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{printed}{complaints}");
    assert!(output.status.success(), "a browser test failed (see above; screenshots are in target/dashboard)");
}
