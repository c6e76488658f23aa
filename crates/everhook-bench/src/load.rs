//! The load generator on keep-alive connections. A closed loop sends the next request after each answer. An open loop
//! sends each request at its planned time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use everhook_testkit::http::{read_frame, status};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};

use crate::process::Server;
use crate::receiver::payload;

/// The requests to send, one per number.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) address: String,
    /// The request line and the constant headers. With several heads, requests use them in turn.
    pub(crate) heads: Vec<String>,
    /// Whether each request has an idempotency key, as the client libraries send it.
    pub(crate) keys: bool,
    /// Returns the body for a number.
    pub(crate) body: fn(usize) -> String,
    pub(crate) first: usize,
    pub(crate) requests: usize,
    pub(crate) clients: usize,
}

/// A connection with its read buffer.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Load {
    /// Messages to one application.
    pub(crate) fn messages(server: &Server, application: &str, requests: usize, clients: usize) -> Load {
        Load::scattered(server, &[application.to_owned()], requests, clients)
    }

    /// Messages to several applications in turn.
    pub(crate) fn scattered(server: &Server, applications: &[String], requests: usize, clients: usize) -> Load {
        let head = |application: &String| {
            format!(
                "POST /api/v1/app/{application}/msg HTTP/1.1\r\nhost: server\r\ncontent-type: application/json\r\n\
                 authorization: Bearer {}",
                server.key
            )
        };
        Load {
            address: server.address.clone(),
            heads: applications.iter().map(head).collect(),
            keys: true,
            body: |number| format!("{{\"eventType\":\"bench.event\",\"payload\":{}}}", payload(number)),
            first: 0,
            requests,
            clients,
        }
    }

    /// Sends all requests in a closed loop and returns the seconds that this took. Fails if an answer is not 2xx.
    pub(crate) async fn run(self) -> anyhow::Result<f64> {
        let (load, next) = (Arc::new(self), Arc::new(AtomicUsize::new(0)));
        let connected = load.connect().await?;
        let started = Instant::now();
        let mut clients = tokio::task::JoinSet::new();
        for mut client in connected {
            let (load, next) = (Arc::clone(&load), Arc::clone(&next));
            clients.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= load.requests {
                        return anyhow::Ok(());
                    }
                    client.send(&load, load.first + number).await?;
                }
            });
        }
        while let Some(client) = clients.join_next().await {
            client.context("a client panicked")??;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// Sends at a constant rate, independent of the answers. Returns the planned time and the answer time of each
    /// request, in nanoseconds since `zero`. The time that a request waits for a free connection counts.
    pub(crate) async fn run_at(self, rate: f64, zero: Instant) -> anyhow::Result<Vec<(u64, u64)>> {
        let (sender, due) = mpsc::unbounded_channel();
        let (load, due) = (Arc::new(self), Arc::new(Mutex::new(due)));
        let mut clients = tokio::task::JoinSet::new();
        for mut client in load.connect().await? {
            let (load, due) = (Arc::clone(&load), Arc::clone(&due));
            clients.spawn(async move {
                let mut times = Vec::new();
                loop {
                    let Some((number, meant)) = due.lock().await.recv().await else { return anyhow::Ok(times) };
                    client.send(&load, load.first + number).await?;
                    times.push((number, nanos(meant, zero), nanos(Instant::now(), zero)));
                }
            });
        }
        let (requests, started) = (load.requests, Instant::now());
        // A separate thread, because it sleeps more precisely than the runtime's timers.
        let pace = std::thread::spawn(move || {
            for number in 0..requests {
                let meant = started + Duration::from_secs_f64(number as f64 / rate);
                std::thread::sleep(meant.saturating_duration_since(Instant::now()));
                if sender.send((number, meant)).is_err() {
                    return;
                }
            }
        });
        let mut sent = vec![(0, 0); requests];
        while let Some(times) = clients.join_next().await {
            for (number, meant, answered) in times.context("a client panicked")?? {
                sent[number] = (meant, answered);
            }
        }
        pace.join().map_err(|_| anyhow::anyhow!("the pace panicked"))?;
        Ok(sent)
    }

    /// Opens the connections one after the other. A burst could overflow the server's accept queue and wait a second.
    async fn connect(&self) -> anyhow::Result<Vec<Client>> {
        let mut clients = Vec::with_capacity(self.clients);
        for _ in 0..self.clients {
            clients.push(Client::connect(&self.address).await?);
        }
        Ok(clients)
    }

    fn request(&self, number: usize) -> String {
        let body = (self.body)(number);
        let key = if self.keys { format!("idempotency-key: auto_{number:032x}\r\n") } else { String::new() };
        let head = &self.heads[number % self.heads.len()];
        format!("{head}\r\n{key}content-length: {}\r\n\r\n{body}", body.len())
    }
}

impl Client {
    pub(crate) async fn connect(address: &str) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address).await.context("could not connect")?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, buffer: Vec::with_capacity(8192) })
    }

    /// Sends one request and waits for its answer.
    pub(crate) async fn send(&mut self, load: &Load, number: usize) -> anyhow::Result<()> {
        self.stream.write_all(load.request(number).as_bytes()).await?;
        let frame =
            read_frame(&mut self.stream, &mut self.buffer).await?.context("the server closed the connection")?;
        if !(200..300).contains(&status(&self.buffer)) {
            bail!("request {number} was answered with {}", String::from_utf8_lossy(&self.buffer[..frame.end]));
        }
        self.buffer.drain(..frame.end);
        Ok(())
    }
}

/// The nanoseconds between two instants.
pub(crate) fn nanos(at: Instant, zero: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(zero).as_nanos()).unwrap_or(u64::MAX)
}
