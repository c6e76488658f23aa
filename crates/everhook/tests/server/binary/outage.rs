//! Database outages under load: clients get errors, nothing acknowledged is lost, and no operator has to act.

use everhook_testkit::proxy::Proxy;
use everhook_testkit::receiver::Receiver;
use everhook_testkit::rng;
use everhook_testkit::wait::until_true;

use crate::binary::checker::{Load, Run};
use crate::binary::client::Client;
use crate::binary::environment::variable;
use crate::binary::postgres::{Cluster, Database, host_and_port};
use crate::binary::server::{Backend, Server};

const SETTINGS: [(&str, &str); 2] = [("LEASE_SECONDS", "2"), ("RETRY_SCHEDULE", "1,1,1,1,1")];

#[test]
fn postgres_crashes_under_load_and_nothing_acknowledged_is_lost() {
    let Some(mut cluster) = Cluster::start() else {
        // The tests with a proxy cover the server's view of an outage.
        eprintln!("skipped: PostgreSQL's programs are not installed, so no cluster can be stopped");
        return;
    };
    let database = Database::create_in(&cluster.url);
    check(&database.url, 2, |outage| match outage {
        Outage::Begins => cluster.stop(),
        Outage::Ends => cluster.start_again(),
    });
}

#[test]
fn postgres_connections_are_cut_under_load_and_nothing_acknowledged_is_lost() {
    check_behind_proxy(Traffic::IsCut);
}

#[test]
fn postgres_stalls_under_load_and_nothing_acknowledged_is_lost() {
    check_behind_proxy(Traffic::Stalls);
}

/// A database, a proxy in front of it, and the URL through the proxy.
fn behind_proxy() -> (Database, Proxy, String) {
    let database = Database::create();
    let server = host_and_port(&database.url);
    let proxy = Proxy::start(std::slice::from_ref(&server)).unwrap();
    let url = database.url.replacen(&server, &proxy.addresses[0], 1);
    assert_ne!(url, database.url, "EVERHOOK_TEST_DATABASE has to name its port");
    (database, proxy, url)
}

/// The behaviour of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    /// Everything passes.
    Passes,
    /// Connections are cut, and new ones are closed at once.
    IsCut,
    /// Nothing passes in either direction, and nobody is told.
    Stalls,
}

/// Changes what happens, from now on. What stalled before is cut: its bytes are late, not lost in the middle.
fn set(proxy: &Proxy, traffic: Traffic) {
    proxy.refuse(traffic == Traffic::IsCut);
    if traffic == Traffic::Passes {
        proxy.reset();
    }
    proxy.hold(traffic == Traffic::Stalls);
}

fn check_behind_proxy(traffic: Traffic) {
    let (_database, proxy, url) = behind_proxy();
    check(&url, 2, |outage| match outage {
        Outage::Begins => set(&proxy, traffic),
        Outage::Ends => set(&proxy, Traffic::Passes),
    });
}

enum Outage {
    Begins,
    Ends,
}

/// Interrupts the database at `url` several times under load, and checks everything.
fn check(url: &str, times: usize, mut outage: impl FnMut(Outage)) {
    let seed = variable("EVERHOOK_TEST_SEED").map_or_else(rng::seed, |seed| seed.parse().unwrap());
    eprintln!("EVERHOOK_TEST_SEED={seed}");
    let backend = Backend::postgres_at(url.to_owned());
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let client = server.client();
    let application = client.application("Acme");
    let endpoints = ["/a", "/b"].map(|path| (path, application.endpoint(&receiver.url(path))));
    let load = Load::start(&application, 4, seed);
    for _ in 0..times {
        let acknowledged = load.acknowledged();
        until_true("the load goes on", || load.acknowledged() > acknowledged + 100);
        outage(Outage::Begins);
        until_true("requests are refused", || is_unavailable(&client));
        until_true("the server is not ready", || client.get("/health/ready").status == 503);
        assert_eq!(client.get("/health").status, 204, "it lives all the same");
        outage(Outage::Ends);
        until_true("the server is ready again", || client.get("/health/ready").status == 200);
    }
    let acknowledged = load.acknowledged();
    until_true("the load goes on", || load.acknowledged() > acknowledged + 100);
    let operations = load.stop();
    let run = Run { application: &application, receiver: &receiver, endpoints: &endpoints, operations };
    eprintln!("{times} outages: {:?}", run.check());
}

/// Whether a request gets a 503 with the shape of every error.
fn is_unavailable(client: &Client) -> bool {
    let reply = client.get("/app");
    assert!([200, 503].contains(&reply.status), "{reply:?}");
    if reply.status == 503 {
        assert!(reply.json()["code"].is_string() && reply.json()["detail"].is_string(), "{reply:?}");
        assert!(reply.headers.iter().any(|(name, _)| name == "retry-after"), "{reply:?}");
    }
    reply.status == 503
}

#[test]
fn a_server_that_starts_while_postgres_is_away_waits_for_it() {
    for away in [Traffic::IsCut, Traffic::Stalls] {
        let (_database, proxy, url) = behind_proxy();
        set(&proxy, away);
        let mut server = Server::prepare(&Backend::postgres_at(url), &SETTINGS);
        server.spawn();
        until_true("it says what it waits for", || server.log().contains("waiting for the database"));
        set(&proxy, Traffic::Passes);
        server.wait_until_serving();
        server.client().get("/app").expect(200);
    }
}

#[test]
fn a_server_that_waits_for_postgres_can_be_stopped() {
    let (_database, proxy, url) = behind_proxy();
    set(&proxy, Traffic::IsCut);
    let mut server = Server::prepare(&Backend::postgres_at(url), &SETTINGS);
    server.spawn();
    until_true("it says what it waits for", || server.log().contains("waiting for the database"));
    server.terminate();
    assert!(server.wait().success(), "{}", server.log());
}

#[test]
fn a_server_does_not_wait_for_what_only_a_person_can_change() {
    let database = Database::create();
    let missing = database.url.replacen("everhook_it_", "everhook_missing_", 1);
    let mut server = Server::prepare(&Backend::postgres_at(missing), &SETTINGS);
    server.spawn();
    assert!(!server.wait().success());
    assert!(!server.log().contains("waiting for the database"), "{}", server.log());
}
