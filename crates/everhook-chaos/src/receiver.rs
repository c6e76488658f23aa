//! Receivers that record every request and are sometimes slow, busy or failing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use everhook_testkit::responder::{Incoming, Respond, Responder, Response};
use everhook_testkit::rng::Rng;

use crate::history::{History, Receipt};

/// The endpoints of a run: steady, slow, flaky, busy.
pub const ENDPOINTS: usize = 4;

/// The number of the receiver for pushed jobs.
pub const JOBS: usize = ENDPOINTS;
/// A job with this text in its payload fails every time.
pub(crate) const DOOMED: &str = "\"doomed\":true";

/// All receivers on one port; the path contains the endpoint's number.
pub struct Receivers {
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    history: Arc<History>,
    lease: Duration,
    random: Rng,
    /// True if all requests are answered at once with 200.
    healed: AtomicBool,
}

/// The answer to a request.
struct Answer {
    after: Duration,
    /// The HTTP status; 0 closes the connection instead.
    status: u16,
}

impl Receivers {
    pub fn start(history: &Arc<History>, lease: Duration, seed: u64) -> anyhow::Result<Receivers> {
        let responder = Responder::open().context("could not listen")?;
        let address = responder.address()?;
        let (history, random) = (Arc::clone(history), Rng::of(seed, "receivers"));
        let shared = Arc::new(Shared { history, lease, random, healed: AtomicBool::new(false) });
        tokio::spawn(responder.run(Arc::clone(&shared)));
        Ok(Receivers { address, shared })
    }

    /// Makes all receivers answer at once with 200.
    pub fn heal(&self) {
        self.shared.healed.store(true, Ordering::Relaxed);
    }
}

impl Respond for Shared {
    async fn respond(&self, request: Incoming<'_>) -> Response {
        let (at, body) = (self.history.elapsed(), request.body.to_vec());
        let endpoint = request.word(1).and_then(|path| path.strip_prefix('/')?.parse().ok()).unwrap_or(usize::MAX);
        let message = request.header("webhook-id").unwrap_or_default().to_owned();
        let is_doomed = endpoint == JOBS && body.windows(DOOMED.len()).any(|window| window == DOOMED.as_bytes());
        let Answer { after, status } = self.choose(endpoint, is_doomed);
        // The request is recorded before the answer: it was sent even if the sender dies meanwhile.
        self.history.receipt(Receipt { at, endpoint, message, body, status });
        tokio::time::sleep(after).await;
        let patience = (status == 429).then(|| ("retry-after", "1".to_owned()));
        if status == 0 { Response::Reset } else { Response::new(status, patience.as_slice(), b"ok") }
    }
}

impl Shared {
    fn choose(&self, endpoint: usize, is_doomed: bool) -> Answer {
        let random = &self.random;
        let quick = Duration::from_millis(5);
        if is_doomed {
            return Answer { after: quick, status: 500 };
        }
        if self.healed.load(Ordering::Relaxed) {
            return Answer { after: Duration::ZERO, status: 200 };
        }
        match endpoint {
            // Most answers come well within the lease, and some far later. A node that is alive must keep its task for
            // that time.
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
