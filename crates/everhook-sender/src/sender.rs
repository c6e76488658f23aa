//! Sends one request and brings back what came of it.
//!
//! The way in from the engine. It decides between a kept connection and a new one, and nothing about the reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::outcome::{Reply, SendFailure};
use hickory_resolver::net::NetError;
use http::HeaderMap;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::connect::Connector;
use crate::egress::Egress;
use crate::failure;
use crate::host::{Host, Room};
use crate::limits::SWEEP_EVERY;
use crate::link::{ExchangeBy, Failed, Link, Message};
use crate::resolve::Resolver;
use crate::targets::Targets;
use crate::tls;

/// How to send.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Which addresses may be sent to.
    pub egress: Egress,
    /// How long each step may take.
    pub deadlines: Deadlines,
    /// Requests under way to one host; more wait for a free connection.
    pub connections_per_host: usize,
    /// Connections to one host that are kept open between requests.
    pub idle_per_host: usize,
    /// Connections to all hosts that are kept open between requests.
    pub idle_total: usize,
    /// Root certificates in DER that are trusted in addition to the system's.
    pub extra_roots: Vec<Vec<u8>>,
}

/// How long each step of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Resolving the name and making the connection.
    pub connect: Duration,
    /// The TLS handshake.
    pub tls: Duration,
    /// Writing the request.
    pub write: Duration,
    /// From the request to the head of the reply.
    pub first_byte: Duration,
    /// Everything, from the wait for a free connection to the end of the reply.
    pub total: Duration,
}

/// A POST.
#[derive(Clone)]
pub struct Request {
    /// Where to; checked again before anything is sent.
    pub url: String,
    /// All headers but those that say where the message goes and how it is framed.
    pub headers: HeaderMap,
    /// Sent as it is.
    pub body: Bytes,
    /// How long it may take, and wait for its reply to begin; none: as long as the sender's own deadlines say.
    pub patience: Option<Duration>,
}

/// Why there can be no `Sender`.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// A root certificate cannot be read.
    #[error("could not set up TLS; check that the extra root certificates are DER")]
    Tls(#[source] rustls::Error),
    /// The resolver does not start.
    #[error("could not set up the name resolver")]
    Resolver(#[source] Box<NetError>),
}

/// Sends requests. Clones share their connections.
#[derive(Clone)]
pub struct Sender {
    shared: Arc<Shared>,
}

struct Shared {
    connector: Connector,
    targets: Targets,
    idle_total: Arc<Semaphore>,
    started: Instant,
    /// When the next sweep is due, in milliseconds since `started`.
    sweep_due_ms: AtomicU64,
}

impl Sender {
    /// Reads the system's name servers and root certificates. Opens nothing.
    pub fn new(config: SenderConfig) -> Result<Sender, SenderError> {
        let connector = Connector {
            egress: config.egress.clone(),
            resolver: Resolver::from_system().map_err(|error| SenderError::Resolver(Box::new(error)))?,
            tls: tls::connector(config.extra_roots).map_err(SenderError::Tls)?,
            deadlines: config.deadlines,
        };
        let room = Room { connections: config.connections_per_host.max(1), idle: config.idle_per_host };
        let shared = Shared {
            connector,
            targets: Targets::new(config.egress, room),
            idle_total: Arc::new(Semaphore::new(config.idle_total)),
            started: clock::now(),
            sweep_due_ms: AtomicU64::new(0),
        };
        Ok(Sender { shared: Arc::new(shared) })
    }

    /// Sends `request` once. A reply of any status is `Ok`; what it means is for `core::outcome` to say.
    ///
    /// When the future is dropped, the connection is closed.
    pub async fn send(&self, request: Request) -> Result<Reply, SendFailure> {
        let Shared { connector, targets, .. } = &*self.shared;
        let patience = request.patience;
        let total_by = clock::now() + patience.unwrap_or(connector.deadlines.total);
        let target = targets.find(&request.url).map_err(|error| failure::bad_url(&error))?;
        let host = &*target.host;
        let _slot = match timeout_at(total_by, host.slots.acquire()).await {
            // A slot that comes free with the deadline is of no use: the receiver would see a request we gave up.
            Ok(slot) if clock::now() < total_by => slot.expect("the semaphore is never closed"),
            _ => return Err(failure::timeout("no connection to the receiver became free in time")),
        };
        let mut message = target.message(request.headers, request.body);
        // A kept link may be lost between the look at it and the first byte; then the request comes back whole, and
        // to take another link is no retry that anyone could notice. It ends: each turn uses up a kept link.
        while let Some(link) = host.take(clock::now()) {
            match self.exchange(host, link, message, (total_by, patience)).await {
                Ok(reply) => return Ok(reply),
                Err(Failed::Broken(failure)) => return Err(failure),
                Err(Failed::Unsent(unsent)) => message = *unsent,
            }
        }
        // Boxed, since it is large and seldom needed.
        let link = Box::pin(connector.connect(host, total_by)).await?;
        match self.exchange(host, Box::new(link), message, (total_by, patience)).await {
            Ok(reply) => Ok(reply),
            Err(Failed::Broken(failure)) => Err(failure),
            Err(Failed::Unsent(_)) => Err(failure::hung_up()),
        }
    }

    async fn exchange(
        &self,
        host: &Host,
        mut link: Box<Link>,
        message: Message,
        (total_by, patience): (Instant, Option<Duration>),
    ) -> Result<Reply, Failed> {
        let begun = clock::now();
        let deadlines = &self.shared.connector.deadlines;
        let by = ExchangeBy {
            written: total_by.min(begun + deadlines.write),
            first_byte: total_by.min(begun + patience.unwrap_or(deadlines.first_byte)),
            total: total_by,
        };
        let done = link.exchange(message, by).await?;
        let now = clock::now();
        if done.reusable {
            host.keep(link, done.promised, now, &self.shared.idle_total);
        }
        self.sweep_if_due(now);
        Ok(done.reply)
    }

    fn sweep_if_due(&self, now: Instant) {
        let Shared { targets, started, sweep_due_ms, .. } = &*self.shared;
        let now_ms = now.duration_since(*started).as_millis() as u64;
        let due_ms = sweep_due_ms.load(Relaxed);
        let next_ms = now_ms + SWEEP_EVERY.as_millis() as u64;
        // Only the request that moves the due time sweeps.
        if now_ms >= due_ms && sweep_due_ms.compare_exchange(due_ms, next_ms, Relaxed, Relaxed).is_ok() {
            targets.sweep(now);
        }
    }
}

impl Default for SenderConfig {
    /// Public addresses only, the default deadlines, 128 connections to a host.
    fn default() -> SenderConfig {
        SenderConfig {
            egress: Egress::default(),
            deadlines: Deadlines::default(),
            connections_per_host: 128,
            idle_per_host: 512,
            idle_total: 2048,
            extra_roots: Vec::new(),
        }
    }
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            connect: Duration::from_secs(5),
            tls: Duration::from_secs(5),
            write: Duration::from_secs(5),
            first_byte: Duration::from_secs(15),
            total: Duration::from_secs(15),
        }
    }
}
