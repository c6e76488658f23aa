//! Receivers that record every request and are at times slow, busy or rude.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::history::{History, Receipt};
use crate::http::{self, Request};
use crate::random::Random;

/// Endpoints of a run: steady, slow, flaky, busy.
pub const ENDPOINTS: usize = 4;

/// The target of the queue, which has a number of its own.
pub const JOBS: usize = ENDPOINTS;
/// A job whose payload has this fails whenever it comes.
pub(crate) const DOOMED: &str = "\"doomed\":true";

/// All receivers, on one port; the path is the endpoint's number.
pub struct Receivers {
    /// Host and port.
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    history: Arc<History>,
    lease: Duration,
    seed: u64,
    /// Everything is answered at once, with 200.
    healed: AtomicBool,
}

/// What a request is answered.
struct Answer {
    after: Duration,
    /// 0: the connection is closed instead.
    status: u16,
}

impl Receivers {
    /// Listens.
    pub async fn start(history: &Arc<History>, lease: Duration, seed: u64) -> anyhow::Result<Receivers> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("could not listen")?;
        let address = listener.local_addr()?.to_string();
        let shared = Arc::new(Shared { history: Arc::clone(history), lease, seed, healed: AtomicBool::new(false) });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut count = 0_u64;
            while let Ok((stream, _)) = listener.accept().await {
                count += 1;
                let (shared, random) =
                    (Arc::clone(&accepting), Random::new(accepting.seed, &format!("receiver {count}")));
                // A connection that breaks is the sender's to notice.
                tokio::spawn(async move { drop(shared.converse(stream, random).await) });
            }
        });
        Ok(Receivers { address, shared })
    }

    /// From now on everyone answers at once, with 200.
    pub fn heal(&self) {
        self.shared.healed.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    async fn converse(&self, mut stream: TcpStream, mut random: Random) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut buffer = Vec::new();
        while let Some(Request { head, body }) = http::read_request(&mut stream, &mut buffer).await? {
            let at = self.history.elapsed();
            let endpoint =
                head.split(' ').nth(1).and_then(|path| path.strip_prefix('/')?.parse().ok()).unwrap_or(usize::MAX);
            let message = http::header(&head, "webhook-id").unwrap_or_default().to_owned();
            let is_doomed = endpoint == JOBS && body.windows(DOOMED.len()).any(|window| window == DOOMED.as_bytes());
            let Answer { after, status } = self.choose(endpoint, is_doomed, &mut random);
            // Recorded before it is answered: a sender that dies meanwhile has sent it all the same.
            self.history.receipt(Receipt { at, endpoint, message, body, status });
            tokio::time::sleep(after).await;
            if status == 0 {
                stream.set_zero_linger()?;
                return Ok(());
            }
            let patience = if status == 429 { "retry-after: 1\r\n" } else { "" };
            let reply = format!("HTTP/1.1 {status} X\r\n{patience}content-length: 2\r\n\r\nok");
            stream.write_all(reply.as_bytes()).await?;
        }
        Ok(())
    }

    fn choose(&self, endpoint: usize, is_doomed: bool, random: &mut Random) -> Answer {
        let quick = Duration::from_millis(5);
        if is_doomed {
            return Answer { after: quick, status: 500 };
        }
        if self.healed.load(Ordering::Relaxed) {
            return Answer { after: Duration::ZERO, status: 200 };
        }
        match endpoint {
            // Mostly well within the lease, now and then far longer: a living node keeps what it holds.
            1 if random.once_in(25) => Answer { after: self.lease * 3, status: 200 },
            1 => Answer { after: random.between(quick, self.lease), status: 200 },
            2 if random.once_in(10) => Answer { after: quick, status: 500 },
            2 if random.once_in(30) => Answer { after: quick, status: 0 },
            3 if random.once_in(60) => Answer { after: quick, status: 429 },
            JOBS if random.once_in(25) => Answer { after: self.lease * 2, status: 200 },
            JOBS if random.once_in(10) => Answer { after: quick, status: 500 },
            JOBS if random.once_in(30) => Answer { after: quick, status: 0 },
            JOBS if random.once_in(60) => Answer { after: quick, status: 429 },
            _ => Answer { after: random.between(quick, Duration::from_millis(60)), status: 200 },
        }
    }
}
