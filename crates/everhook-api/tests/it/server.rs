//! The server itself, over a socket of this machine.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// Reads the head of an answer, and its body if it has one.
async fn read_answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).await.unwrap();
        text.push(byte[0].into());
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() == length.parse::<usize>().unwrap() {
                return text;
            }
        }
    }
}

#[tokio::test]
async fn connections_are_kept_alive_and_closed_in_good_order() {
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let mut server = JoinSet::new();
    server.spawn(everhook_api::serve(listener, world.router.clone(), shutdown.clone()));

    let mut client = TcpStream::connect(address).await.unwrap();
    for _ in 0..2 {
        client.write_all(b"GET /api/v1/health HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        assert!(read_answer(&mut client).await.starts_with("HTTP/1.1 204 No Content"));
    }
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /api/v1/health/ping HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    read_answer(&mut idle).await;

    let head = format!("POST /api/v1/app HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n", world.key);
    client.write_all(format!("{head}content-length: 14\r\n\r\n{{\"name\"").as_bytes()).await.unwrap();
    let mut garbage = TcpStream::connect(address).await.unwrap();
    garbage.write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n").await.unwrap();
    assert!(read_answer(&mut garbage).await.starts_with("HTTP/1.1 400"));

    shutdown.cancel();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0, "idle connections are closed");
    client.write_all(b":\"abc\"}").await.unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    assert!(rest.starts_with("HTTP/1.1 201 Created"), "what is running is finished: {rest}");
    server.join_next().await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
