//! A rolling restart behind a load balancer with readiness checks: clients notice nothing.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use everhook_testkit::receiver::Receiver;
use everhook_testkit::wait::until_true;

use crate::binary::client::{Application, Client};
use crate::binary::server::{Backend, Server};

/// Interval of the balancer's readiness checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Much longer than the balancer needs to notice.
const STOP_DELAY_SECONDS: &str = "6";
/// Requests to wait for in each phase of the test.
const PART: usize = 100;

#[test]
fn a_rolling_restart_behind_a_load_balancer_shows_no_client_an_error() {
    let backend = Backend::postgres();
    let first = Server::start(&backend, &[("STOP_DELAY_SECONDS", STOP_DELAY_SECONDS)]);
    let second = first.start_another();
    let receiver = Receiver::start();
    let application = first.client().application("Acme");
    application.endpoint(&receiver.url("/"));
    let balancer = Balancer::start(&application, [first.client(), second.client()]);
    let mut servers = [first, second];
    until_true("both are served", || (0..2).all(|node| balancer.answered(node) > PART));
    for (node, server) in servers.iter_mut().enumerate() {
        let other = 1 - node;
        server.terminate();
        let answered = balancer.answered(other);
        assert_eq!(server.wait().code(), Some(0));
        until_true("the other one serves", || balancer.answered(other) > answered + PART);
        let answered = balancer.answered(node);
        server.start_again();
        until_true("it is back", || balancer.answered(node) > answered + PART);
    }
    assert_eq!(balancer.stop(), Vec::<String>::new());
}

/// Sends requests to ready nodes over persistent connections.
struct Balancer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    nodes: [Node; 2],
    /// Path of the only request.
    path: String,
    stop: AtomicBool,
    errors: Mutex<Vec<String>>,
}

struct Node {
    client: Client,
    ready: AtomicBool,
    answered: AtomicUsize,
}

impl Balancer {
    fn start(application: &Application, nodes: [Client; 2]) -> Balancer {
        let nodes = nodes.map(|client| Node { client, ready: AtomicBool::new(true), answered: AtomicUsize::new(0) });
        let path = format!("/api/v1{}", application.path("/msg"));
        let (stop, errors) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { nodes, path, stop, errors });
        let run = |work: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || work(&shared))
        };
        let threads = vec![run(Shared::check), run(Shared::send), run(Shared::send), run(Shared::send)];
        Balancer { shared, threads }
    }

    fn answered(&self, node: usize) -> usize {
        self.shared.nodes[node].answered.load(SeqCst)
    }

    /// Ends the load and returns every error that a client saw.
    fn stop(self) -> Vec<String> {
        self.shared.stop.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        std::mem::take(&mut *self.shared.errors.lock().unwrap())
    }
}

impl Shared {
    fn check(&self) {
        while !self.stop.load(SeqCst) {
            for node in &self.nodes {
                let ready = node.client.send("GET", "/health/ready", &[], b"");
                node.ready.store(ready.is_ok_and(|ready| ready.status == 200), SeqCst);
            }
            thread::sleep(CHECK_INTERVAL);
        }
    }

    fn send(&self) {
        let mut kept: [Option<Kept>; 2] = [None, None];
        for turn in 0.. {
            if self.stop.load(SeqCst) {
                return;
            }
            let at = turn % 2;
            let node = &self.nodes[at];
            if !node.ready.load(SeqCst) {
                kept[at] = None;
                // The other node may not be ready either, so the loop must not spin.
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            match self.request(&mut kept[at], node) {
                Ok(202) => drop(node.answered.fetch_add(1, SeqCst)),
                Ok(status) => self.errors.lock().unwrap().push(format!("node {at} answered {status}")),
                Err(error) => {
                    kept[at] = None;
                    self.errors.lock().unwrap().push(format!("node {at}: {error}"));
                }
            }
        }
    }

    /// Sends the request over the kept connection, or a new one, and keeps it unless the node closes it.
    fn request(&self, kept: &mut Option<Kept>, node: &Node) -> io::Result<u16> {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Kept(TcpStream::connect(node.client.address())?),
        };
        let body = r#"{"eventType": "a.b", "payload": {}}"#;
        let (status, goes_on) = connection.post(&self.path, node.client.key(), body)?;
        *kept = goes_on.then_some(connection);
        Ok(status)
    }
}

struct Kept(TcpStream);

impl Kept {
    /// Returns the status, and whether the connection stays open.
    fn post(&mut self, path: &str, key: &str, body: &str) -> io::Result<(u16, bool)> {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\ncontent-length: {length}");
        self.0.write_all(format!("{head}\r\n\r\n{body}").as_bytes())?;
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let read = self.0.read(&mut buffer)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() == length.map_or(0, |length| length.parse().unwrap()) {
                let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                return Ok((status, !head.contains("connection: close")));
            }
        }
    }
}
