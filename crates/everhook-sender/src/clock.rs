//! The monotonic clock, for deadlines of sockets and ages of connections.

use tokio::time::Instant;

#[expect(clippy::disallowed_methods, reason = "a socket waits in real time; nothing here decides what a task does")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
