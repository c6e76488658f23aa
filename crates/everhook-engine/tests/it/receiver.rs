//! A receiver on a real socket that answers as told and remembers what it got.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// Takes the request and says nothing until told otherwise.
    Hang,
}

pub(crate) struct Receiver {
    pub(crate) url: String,
    state: Arc<State>,
}

struct State {
    answer: Mutex<Answer>,
    bodies: Mutex<Vec<String>>,
    changed: Notify,
}

impl Receiver {
    pub(crate) async fn start(answer: Answer) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let state = Arc::new(State { answer: Mutex::new(answer), bodies: Mutex::default(), changed: Notify::new() });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, Arc::clone(&shared)));
            }
        });
        Receiver { url, state }
    }

    pub(crate) fn answer(&self, answer: Answer) {
        *self.state.answer.lock().unwrap() = answer;
        self.state.changed.notify_waiters();
    }

    /// Waits until so many requests have come; answers all of their bodies.
    pub(crate) async fn received(&self, count: usize) -> Vec<String> {
        loop {
            let changed = self.state.changed.notified();
            let bodies = self.state.bodies.lock().unwrap().clone();
            if bodies.len() >= count {
                return bodies;
            }
            changed.await;
        }
    }

    /// What has come so far.
    pub(crate) fn so_far(&self) -> usize {
        self.state.bodies.lock().unwrap().len()
    }
}

async fn converse(mut stream: TcpStream, state: Arc<State>) {
    let mut buffer = Vec::new();
    while let Some(body) = read_request(&mut stream, &mut buffer).await {
        state.bodies.lock().unwrap().push(body);
        state.changed.notify_waiters();
        let status = loop {
            let changed = state.changed.notified();
            match *state.answer.lock().unwrap() {
                Answer::Status(status) => break status,
                Answer::Hang => {}
            }
            changed.await;
        };
        let reply = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(buffer).into_owned();
        if let Some(head_end) = text.find("\r\n\r\n") {
            let length =
                text.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let end = head_end + 4 + length.unwrap_or(0_usize);
            if buffer.len() >= end {
                let body = String::from_utf8_lossy(&buffer[head_end + 4..end]).into_owned();
                buffer.drain(..end);
                return Some(body);
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => buffer.extend_from_slice(&chunk[..read]),
        }
    }
}
