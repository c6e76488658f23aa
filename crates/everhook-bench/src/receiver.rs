//! The receiver: answers 200 and counts the requests by endpoint and message number. It can fail the first attempt of
//! some messages, and hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use everhook_testkit::responder::{Incoming, Respond, Responder, Response};
use tokio::sync::Notify;

use crate::load::nanos;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const FAILED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno";
/// A bit in the count of a message: its first attempt was failed on purpose.
const FAILED_ONCE: u8 = 128;

/// A receiver with one counter per endpoint and message.
pub(crate) struct Receiver {
    pub(crate) address: String,
    pub(crate) zero: Instant,
    plan: Plan,
    counts: Vec<AtomicU8>,
    at_ns: Vec<AtomicU64>,
    received: AtomicUsize,
    invented: AtomicUsize,
    wanted: AtomicUsize,
    progress: Notify,
}

/// The expected messages and the way to answer them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) messages: usize,
    pub(crate) endpoints: usize,
    /// If set, the first attempt of every message whose number is divisible by this fails.
    pub(crate) fail_every: Option<usize>,
    /// True if no request is ever answered.
    pub(crate) hangs: bool,
}

/// The result of the check at the end.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Checked {
    pub(crate) lost: usize,
    pub(crate) invented: usize,
    pub(crate) duplicated: usize,
}

impl Checked {
    pub(crate) fn add(&mut self, other: Checked) {
        self.lost += other.lost;
        self.invented += other.invented;
        self.duplicated += other.duplicated;
    }
}

impl Plan {
    /// Expects this many messages for each endpoint, and answers at once.
    pub(crate) fn of(messages: usize, endpoints: usize) -> Plan {
        Plan { messages, endpoints, fail_every: None, hangs: false }
    }
}

impl Receiver {
    pub(crate) async fn start(plan: Plan) -> anyhow::Result<Arc<Receiver>> {
        let responder = Responder::open()?;
        let places = plan.messages * plan.endpoints;
        let receiver = Arc::new(Receiver {
            address: responder.address()?,
            zero: Instant::now(),
            plan,
            counts: (0..places).map(|_| AtomicU8::new(0)).collect(),
            at_ns: (0..places).map(|_| AtomicU64::new(0)).collect(),
            received: AtomicUsize::new(0),
            invented: AtomicUsize::new(0),
            wanted: AtomicUsize::new(usize::MAX),
            progress: Notify::new(),
        });
        // A broken connection shows up as lost messages.
        tokio::spawn(responder.run(Arc::clone(&receiver)));
        Ok(receiver)
    }

    /// Counts a request. The path ends in the endpoint's number; the body begins with the message's number.
    fn count(&self, request: Incoming<'_>) -> &'static [u8] {
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<usize>().ok();
        let path = request.word(1).and_then(|path| path.strip_prefix('/'));
        let place = path.and_then(|path| path.parse::<usize>().ok()).zip(request.body.get(6..15).and_then(number));
        match place {
            Some((endpoint, message)) if message < self.plan.messages && endpoint < self.plan.endpoints => {
                let at = endpoint * self.plan.messages + message;
                let fails = self.plan.fail_every.is_some_and(|every| message.is_multiple_of(every));
                if fails && self.counts[at].fetch_or(FAILED_ONCE, Ordering::Relaxed) & FAILED_ONCE == 0 {
                    return FAILED;
                }
                self.counts[at].fetch_add(1, Ordering::Relaxed);
                self.at_ns[at].store(nanos(Instant::now(), self.zero), Ordering::Relaxed);
            }
            _ => drop(self.invented.fetch_add(1, Ordering::Relaxed)),
        }
        let received = self.received.fetch_add(1, Ordering::AcqRel) + 1;
        if received >= self.wanted.load(Ordering::Acquire) {
            self.progress.notify_waiters();
        }
        OK
    }

    pub(crate) fn plan(&self) -> Plan {
        self.plan
    }

    /// The time at which a message arrived at the first endpoint.
    pub(crate) fn at_ns(&self, message: usize) -> u64 {
        self.at_ns[message].load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> usize {
        self.received.load(Ordering::Acquire)
    }

    /// Waits until all expected messages have arrived.
    pub(crate) async fn all(&self) {
        self.wait_for(self.counts.len()).await;
    }

    /// Waits until this many deliveries have arrived.
    pub(crate) async fn wait_for(&self, deliveries: usize) {
        self.wanted.store(deliveries, Ordering::Release);
        loop {
            let progress = self.progress.notified();
            if self.received() >= deliveries {
                return;
            }
            progress.await;
        }
    }

    /// Counts missing, unknown and repeated messages.
    pub(crate) fn check(&self) -> Checked {
        let counts = || self.counts.iter().map(|count| usize::from(count.load(Ordering::Relaxed) & !FAILED_ONCE));
        Checked {
            lost: counts().filter(|count| *count == 0).count(),
            invented: self.invented.load(Ordering::Relaxed),
            duplicated: counts().map(|count| count.saturating_sub(1)).sum(),
        }
    }
}

impl Respond for Receiver {
    async fn respond(&self, request: Incoming<'_>) -> Response {
        if self.plan.hangs { Response::Silence } else { Response::Bytes(self.count(request).into()) }
    }
}

/// A payload of 512 bytes with the message's number at the start, where `count` reads it.
pub(crate) fn payload(message: usize) -> String {
    let head = format!("{{\"n\":\"{message:09}\",\"pad\":\"");
    let pad = PAYLOAD_BYTES - head.len() - 2;
    format!("{head}{}\"}}", "x".repeat(pad))
}

pub(crate) const PAYLOAD_BYTES: usize = 512;
