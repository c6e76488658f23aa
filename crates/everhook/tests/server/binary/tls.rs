//! The API over TLS.

use crate::binary::environment::everhook;
use crate::binary::server::{Backend, Server};

const PAIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../everhook-sender/tests/it/certificates/server.pem");
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../everhook-sender/tests/it/certificates/ca.pem");

#[test]
fn the_api_is_served_over_tls_and_not_without_it() {
    let backend = Backend::sqlite();
    let server = Server::start(&backend, &[("TLS_CERTIFICATE", PAIR), ("TLS_KEY", PAIR)]);
    let url = server.url().replace("http://127.0.0.1", "https://localhost");
    let run = |url: &str, authority: &str| {
        let mut command = everhook();
        command.args(["app", "list"]).env("EVERHOOK_URL", url).env("EVERHOOK_KEY", server.key());
        command.env("SSL_CERT_FILE", authority).output().unwrap()
    };
    let listed = run(&url, AUTHORITY);
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(!run(&url, "/dev/null").status.success(), "the client does not know the authority");
    assert!(!run(&server.url(), AUTHORITY).status.success(), "plain HTTP");
}

#[test]
fn a_server_without_its_certificate_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let start = |certificate: &str, key: &str| {
        let mut command = everhook();
        command.arg("serve").current_dir(folder.path()).env("EVERHOOK_LISTEN", "127.0.0.1:0");
        command.env("EVERHOOK_TLS_CERTIFICATE", certificate).env("EVERHOOK_TLS_KEY", key);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let missing = start("/nonexistent/cert.pem", "/nonexistent/key.pem");
    assert!(missing.contains("could not read /nonexistent/cert.pem"), "{missing}");
    let half = start(PAIR, "");
    assert!(half.contains("`tls_certificate` is set but `tls_key` is not"), "{half}");
    let unfit = start(AUTHORITY, PAIR);
    assert!(unfit.contains("does not belong to the first certificate"), "{unfit}");
}
