//! The load generator: closed-loop clients on keep-alive connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::http::{read_frame, status};

/// What is sent: one request for each number.
pub(crate) struct Load {
    /// Where to.
    pub(crate) address: String,
    /// The request line and the headers that do not change, without the end of the head.
    pub(crate) head: String,
    /// Put an idempotency key into every request, as the client libraries do.
    pub(crate) keys: bool,
    /// The body for a number.
    pub(crate) body: fn(usize) -> String,
    /// How many requests.
    pub(crate) requests: usize,
    /// How many connections.
    pub(crate) clients: usize,
}

impl Load {
    /// Sends everything and says how many seconds it took; fails if anything is answered with other than 2xx.
    pub(crate) async fn run(self) -> anyhow::Result<f64> {
        let (load, next) = (Arc::new(self), Arc::new(AtomicUsize::new(0)));
        let started = Instant::now();
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..load.clients {
            let (load, next) = (Arc::clone(&load), Arc::clone(&next));
            clients.spawn(async move { load.client(&next).await });
        }
        while let Some(client) = clients.join_next().await {
            client.context("a client panicked")??;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    async fn client(&self, next: &AtomicUsize) -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(&self.address).await.context("could not connect")?;
        stream.set_nodelay(true)?;
        let mut buffer = Vec::with_capacity(8192);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.requests {
                return Ok(());
            }
            let request = self.request(number);
            stream.write_all(request.as_bytes()).await?;
            let frame = read_frame(&mut stream, &mut buffer).await?.context("the server closed the connection")?;
            if !(200..300).contains(&status(&buffer)) {
                bail!("request {number} was answered with {}", String::from_utf8_lossy(&buffer[..frame.end]));
            }
            buffer.drain(..frame.end);
        }
    }

    pub(crate) fn request(&self, number: usize) -> String {
        let body = (self.body)(number);
        let key = if self.keys { format!("idempotency-key: auto_{number:032x}\r\n") } else { String::new() };
        format!("{}\r\n{key}content-length: {}\r\n\r\n{body}", self.head, body.len())
    }
}
