//! The server itself, over a socket of this machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use everhook_api::{Budget, ConnectionMetrics, Server, Stop, TrustedProxies, listen, ops_router};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::api::world::World;

/// More than the tests need.
const BUDGET: Budget = Budget { connections: 10, per_address: 10 };

/// A server on a port of its own.
struct Running {
    address: SocketAddr,
    stop: Stop,
    metrics: ConnectionMetrics,
    server: JoinSet<()>,
}

impl Running {
    async fn start(router: Router, budget: Budget) -> Running {
        let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, metrics, mut server) = (Stop::default(), ConnectionMetrics::default(), JoinSet::new());
        server.spawn(
            Server {
                listener,
                router,
                budget,
                stop: stop.clone(),
                metrics: metrics.clone(),
                tls: None,
                proxies: TrustedProxies::default(),
            }
            .run(),
        );
        Running { address, stop, metrics, server }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The value of one of its metrics.
    fn count(&self, name: &str) -> u64 {
        let mut registry = Registry::default();
        self.metrics.register(&mut registry);
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    }
}

async fn get(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
    read_answer(stream).await
}

/// Reads the head of an answer, and its body if it has one.
async fn read_answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8_lossy(&answer).into_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    head + &String::from_utf8_lossy(&body)
}

#[tokio::test]
async fn connections_are_kept_alive_and_closed_in_good_order() {
    let world = World::new().await;
    let mut running = Running::start(world.router.clone(), BUDGET).await;

    let mut client = running.connect().await;
    for _ in 0..2 {
        assert!(get(&mut client, "/api/v1/health").await.starts_with("HTTP/1.1 204 No Content"));
    }
    let mut idle = running.connect().await;
    get(&mut idle, "/api/v1/health/ping").await;

    let head = format!("POST /api/v1/app HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n", world.key);
    client.write_all(format!("{head}content-length: 14\r\n\r\n{{\"name\"").as_bytes()).await.unwrap();
    let mut garbage = running.connect().await;
    garbage.write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n").await.unwrap();
    assert!(read_answer(&mut garbage).await.starts_with("HTTP/1.1 400"));

    running.stop.closing.cancel();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0, "idle connections are closed");
    client.write_all(b":\"abc\"}").await.unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    assert!(rest.starts_with("HTTP/1.1 201 Created"), "what is running is finished: {rest}");
    running.server.join_next().await.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn a_server_that_is_leaving_serves_and_ends_each_connection_with_its_answer() {
    let world = World::new().await;
    let mut running = Running::start(world.router.clone(), BUDGET).await;
    let mut kept = running.connect().await;
    assert!(!get(&mut kept, "/api/v1/health").await.contains("connection: close"));

    running.stop.leaving.cancel();
    for mut client in [kept, running.connect().await] {
        let answer = get(&mut client, "/api/v1/openapi.json").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer:.300}");
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0, "it ends with its answer");
    }

    running.stop.closing.cancel();
    running.server.join_next().await.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn an_address_that_has_its_connections_is_refused_until_one_ends() {
    let world = World::new().await;
    let running = Running::start(world.router.clone(), Budget { connections: 10, per_address: 2 }).await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    get(&mut first, "/api/v1/health").await;
    get(&mut second, "/api/v1/health").await;
    for _ in 0..20 {
        let mut more = running.connect().await;
        let mut answer = String::new();
        more.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too_many_connections"), "{answer}");
    }
    assert_eq!(running.count("connections_refused_total"), 20);
    assert_eq!(running.count("connections_open"), 2, "those that were refused have no place");
    drop(first);
    loop {
        let mut next = running.connect().await;
        next.write_all(b"GET /api/v1/health HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        if read_answer(&mut next).await.starts_with("HTTP/1.1 204") {
            break;
        }
        // The server has not noticed yet that the first one has ended.
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_and_never_reads_loses_its_connection() {
    let world = World::new().await;
    let running = Running::start(world.router.clone(), BUDGET).await;
    let mut client = running.connect().await;
    let request = b"GET /api/v1/openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".repeat(200);
    client.write_all(&request).await.unwrap();
    let hour = async {
        while running.count("connections_unread_total") == 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), hour).await.expect("it is ended within an hour");
    let mut other = running.connect().await;
    assert!(get(&mut other, "/api/v1/health").await.starts_with("HTTP/1.1 204"));
    assert_eq!(running.count("connections_open"), 1);
}

#[tokio::test]
async fn health_and_metrics_are_served_beside_an_api_that_is_full() {
    let world = World::new().await;
    let api = Running::start(world.router.clone(), Budget { connections: 1, per_address: 1 }).await;
    let mut all = api.connect().await;
    get(&mut all, "/api/v1/health").await;
    let ops = Running::start(ops_router(Arc::clone(&world.node), "1.2.3"), Budget::ops()).await;
    let mut client = ops.connect().await;
    assert!(get(&mut client, "/api/v1/health").await.starts_with("HTTP/1.1 204"));
    assert!(get(&mut client, "/api/v1/health/ready").await.contains(r#"{"ready":true,"version":"1.2.3","role":"all""#));
    let metrics = get(&mut client, "/metrics").await;
    assert!(metrics.contains("everhook_tasks_running 0\n"), "without a key: {metrics}");
    world.node.leave();
    assert!(get(&mut client, "/api/v1/health/ready").await.starts_with("HTTP/1.1 503"));
    for path in ["/api/v1/app", "/api/v1/openapi.json", "/docs", "/"] {
        assert!(get(&mut client, path).await.starts_with("HTTP/1.1 404"), "{path}");
    }
}
