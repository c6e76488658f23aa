//! The receiver: answers 200 to everything and counts what came, by endpoint and message number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::http::read_frame;

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// What came: one counter for each endpoint and message.
pub(crate) struct Receiver {
    pub(crate) address: String,
    counts: Vec<AtomicU8>,
    at_ns: Vec<AtomicU64>,
    messages: usize,
    received: AtomicUsize,
    invented: AtomicUsize,
    started: Instant,
    progress: Notify,
}

/// What the check at the end found.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Checked {
    pub(crate) lost: usize,
    pub(crate) invented: usize,
    pub(crate) duplicated: usize,
}

impl Receiver {
    /// Listens for so many messages to each of so many endpoints.
    pub(crate) async fn start(messages: usize, endpoints: usize) -> anyhow::Result<Arc<Receiver>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let zeroes = || std::iter::repeat_with(|| 0).take(messages * endpoints);
        let receiver = Arc::new(Receiver {
            address: listener.local_addr()?.to_string(),
            counts: zeroes().map(AtomicU8::new).collect(),
            at_ns: zeroes().map(|zero| AtomicU64::new(u64::from(zero))).collect(),
            messages,
            received: AtomicUsize::new(0),
            invented: AtomicUsize::new(0),
            started: Instant::now(),
            progress: Notify::new(),
        });
        let shared = Arc::clone(&receiver);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    // A connection that breaks shows as lost messages.
                    let _ = shared.converse(stream).await;
                });
            }
        });
        Ok(receiver)
    }

    async fn converse(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut buffer = Vec::with_capacity(8192);
        while let Some(frame) = read_frame(&mut stream, &mut buffer).await? {
            self.count(&buffer[..frame.head], &buffer[frame.head..frame.end]);
            stream.write_all(REPLY).await?;
            buffer.drain(..frame.end);
        }
        Ok(())
    }

    /// The path ends in the endpoint's number; the body begins with the message's.
    fn count(&self, head: &[u8], body: &[u8]) {
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<usize>().ok();
        let path = head.split(|byte| *byte == b' ').nth(1).and_then(|path| path.strip_prefix(b"/"));
        let place = path.and_then(number).zip(body.get(6..15).and_then(number));
        match place {
            Some((endpoint, message)) if message < self.messages => {
                let at = endpoint * self.messages + message;
                self.counts[at].fetch_add(1, Ordering::Relaxed);
                self.at_ns[at].store(self.elapsed_ns(), Ordering::Relaxed);
            }
            _ => drop(self.invented.fetch_add(1, Ordering::Relaxed)),
        }
        let received = self.received.fetch_add(1, Ordering::AcqRel) + 1;
        if received >= self.counts.len() || self.messages == 1 {
            self.progress.notify_waiters();
        }
    }

    pub(crate) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// When a message came to the first endpoint.
    pub(crate) fn at_ns(&self, message: usize) -> u64 {
        self.at_ns[message].load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> usize {
        self.received.load(Ordering::Acquire)
    }

    /// Waits until everything has come.
    pub(crate) async fn all(&self) {
        loop {
            let progress = self.progress.notified();
            if self.received() >= self.counts.len() {
                return;
            }
            progress.await;
        }
    }

    /// Counts what is missing, what nobody sent, and what came more than once.
    pub(crate) fn check(&self) -> Checked {
        let counts = || self.counts.iter().map(|count| usize::from(count.load(Ordering::Relaxed)));
        Checked {
            lost: counts().filter(|count| *count == 0).count(),
            invented: self.invented.load(Ordering::Relaxed),
            duplicated: counts().map(|count| count.saturating_sub(1)).sum(),
        }
    }
}

/// A payload of 512 bytes that begins with the message's number, where `count` reads it.
pub(crate) fn payload(message: usize) -> String {
    const BYTES: usize = 512;
    let head = format!("{{\"n\":\"{message:09}\",\"pad\":\"");
    let pad = BYTES - head.len() - 2;
    format!("{head}{}\"}}", "x".repeat(pad))
}
