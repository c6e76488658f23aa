//! Sends one request and returns the reply or the failure.
//!
//! The engine's entry point. It chooses between an idle connection and a new one, and never interprets the reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::endpoint_auth::EndpointAuth;
use everhook_core::exchange::Exchange;
use everhook_core::outcome::{Reply, SendFailure};
use hickory_resolver::net::NetError;
use http::{HeaderMap, Method};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::connect::Connector;
use crate::egress::Egress;
use crate::failure;
use crate::host::{Host, Room};
use crate::limits::{SWEEP_EVERY, WAIT_NOTED};
use crate::link::{ExchangeBy, Failed, Link, Message};
use crate::proxy::Proxy;
use crate::resolve::Resolver;
use crate::targets::Targets;
use crate::tls::Tls;

#[derive(Clone, Debug)]
pub struct SenderConfig {
    pub egress: Egress,
    pub deadlines: Deadlines,
    /// Running requests to one host. Further requests wait for a free connection.
    pub connections_per_host: usize,
    /// Idle connections to one host.
    pub idle_per_host: usize,
    /// Idle connections to all hosts.
    pub idle_total: usize,
    /// Root certificates in DER, trusted in addition to the system's.
    pub extra_roots: Vec<Vec<u8>>,
    /// Dials all connections.
    pub proxy: Option<Proxy>,
}

/// Time limits of the steps of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// DNS look-up and TCP connection.
    pub connect: Duration,
    pub tls: Duration,
    pub write: Duration,
    /// From the start of the request to the head of the reply.
    pub first_byte: Duration,
    /// From the wait for a free connection to the end of the reply.
    pub total: Duration,
}

/// A request before the sender adds routing and framing headers.
#[derive(Clone)]
pub struct Request {
    pub method: Method,
    /// Checked again before anything is sent.
    pub url: String,
    /// All headers except those for routing and framing, which the sender sets.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Replaces the sender's `total` and `first_byte` deadlines; `None` keeps them.
    pub patience: Option<Duration>,
    /// The client certificate and the authorities of the connection. Other parts have no effect here.
    pub auth: Option<Arc<EndpointAuth>>,
}

#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    #[error("could not set up TLS; check that the extra root certificates are DER")]
    Tls(#[source] rustls::Error),
    #[error("could not set up the name resolver")]
    Resolver(#[source] Box<NetError>),
}

/// Sends requests. Clones share connections.
#[derive(Clone)]
pub struct Sender {
    shared: Arc<Shared>,
}

struct Shared {
    connector: Connector,
    targets: Targets,
    idle_total: Arc<Semaphore>,
    started: Instant,
    /// Time of the next sweep, in milliseconds since `started`.
    sweep_due_ms: AtomicU64,
}

impl Sender {
    /// Reads the system's name servers and root certificates. Opens no connection.
    pub fn new(config: SenderConfig) -> Result<Sender, SenderError> {
        let connector = Connector {
            egress: config.egress.clone(),
            resolver: Resolver::from_system().map_err(|error| SenderError::Resolver(Box::new(error)))?,
            tls: Tls::new(config.extra_roots).map_err(SenderError::Tls)?,
            deadlines: config.deadlines,
            proxy: config.proxy,
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

    /// Sends `request` once. A reply with any status is `Ok`; `core::outcome` interprets it.
    ///
    /// Dropping the future closes the connection.
    pub async fn send(&self, request: Request) -> Result<Reply, SendFailure> {
        self.send_noting(request, &mut Exchange::default()).await
    }

    /// Sends `request` like [`Sender::send`], and notes each step in `exchange` when it ends.
    pub async fn send_noting(&self, request: Request, exchange: &mut Exchange) -> Result<Reply, SendFailure> {
        let Shared { connector, targets, .. } = &*self.shared;
        let patience = request.patience;
        let begun = clock::now();
        let total_by = begun + patience.unwrap_or(connector.deadlines.total);
        let own = request.auth.as_deref().filter(|auth| auth.connection_id().is_some());
        let target = targets.find(&request.url, own, &connector.tls)?;
        let host = &*target.host;
        let slot = timeout_at(total_by, host.slots.acquire()).await;
        let now = clock::now();
        exchange.wait = Some(now - begun).filter(|wait| *wait >= WAIT_NOTED);
        let _slot = match slot {
            // A slot that becomes free at the deadline is useless: the receiver would see a request that the sender has
            // already given up.
            Ok(slot) if now < total_by => slot.expect("the semaphore is never closed"),
            _ => return Err(failure::timeout("timed out waiting for a free connection to the receiver")),
        };
        let mut message = target.message(request.method, request.headers, request.body);
        // An idle link may close between the check and the first byte. Then the whole request is returned, and another
        // link carries it: the receiver cannot have seen it, so this is no retry. The loop ends, because each turn uses
        // up one idle link.
        while let Some(link) = host.take(clock::now()) {
            exchange.reused = true;
            match self.exchange(host, link, message, (total_by, patience), exchange).await {
                Ok(reply) => return Ok(reply),
                Err(Failed::Broken(failure)) => return Err(failure),
                Err(Failed::Unsent(unsent)) => message = *unsent,
            }
        }
        // Boxed, because the future is large and rarely needed.
        exchange.reused = false;
        let link = Box::pin(connector.connect(host, total_by, exchange)).await?;
        match self.exchange(host, Box::new(link), message, (total_by, patience), exchange).await {
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
        exchange: &mut Exchange,
    ) -> Result<Reply, Failed> {
        let begun = clock::now();
        let deadlines = &self.shared.connector.deadlines;
        let by = ExchangeBy {
            begun,
            written: total_by.min(begun + deadlines.write),
            first_byte: total_by.min(begun + patience.unwrap_or(deadlines.first_byte)),
            total: total_by,
        };
        let done = link.exchange(message, by, exchange).await?;
        let now = clock::now();
        exchange.body = exchange.first_byte.map(|first_byte| (now - begun).saturating_sub(first_byte));
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
    /// Public addresses only, default deadlines, 128 connections per host.
    fn default() -> SenderConfig {
        SenderConfig {
            egress: Egress::default(),
            deadlines: Deadlines::default(),
            connections_per_host: 128,
            idle_per_host: 512,
            idle_total: 2048,
            extra_roots: Vec::new(),
            proxy: None,
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
