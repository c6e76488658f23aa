//! A node that has run out of files. Runs in its own process, because the limit applies to the process.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs::File;
use std::net::TcpListener;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::outcome::{Blame, Class, SendFailure};
use everhook_sender::{Deadlines, Egress, Request, Sender, SenderConfig};
use http::{HeaderMap, Method};
use rlimit::Resource;

const NEVER: Duration = Duration::from_secs(300);
const LIMIT: u64 = 256;

fn post(url: String) -> Request {
    Request {
        method: Method::POST,
        url,
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
        patience: None,
        auth: None,
    }
}

#[tokio::test]
async fn a_node_without_free_files_does_not_blame_the_receiver() {
    let egress = Egress::new(vec!["127.0.0.0/8".parse().unwrap()], false);
    let deadlines = Deadlines { connect: NEVER, tls: NEVER, write: NEVER, first_byte: NEVER, total: NEVER };
    let sender = Sender::new(SenderConfig { egress, deadlines, ..SenderConfig::default() }).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (_, hard) = Resource::NOFILE.get().unwrap();
    Resource::NOFILE.set(LIMIT, hard).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    let lack = "this node has reached its limit of open files";
    let failure = |class| Err(SendFailure { blame: Blame::Node, ..SendFailure::new(class, lack) });
    assert_eq!(sender.send(post(url)).await, failure(Class::Connect));
    assert_eq!(sender.send(post("http://host.example/".to_owned())).await, failure(Class::Dns));
}
