//! Bounds of the sender. Bounds shared with other crates are in `everhook_core::limits`.

use std::time::Duration;

/// Addresses of one name that are dialled. All answers are checked, however many arrive.
pub(crate) const ADDRESSES_MAX: usize = 8;
/// Longest lifetime of a DNS answer, whatever its TTL says.
pub(crate) const DNS_KEPT: Duration = Duration::from_secs(60);
/// Wait for the second address family after the first has answered.
pub(crate) const DNS_OTHER_KIND_AWAITED: Duration = Duration::from_millis(250);
/// Interval between checks of the system's DNS settings.
pub(crate) const DNS_SETTINGS_CHECKED_EVERY: Duration = Duration::from_secs(5);
/// Longest lifetime of a negative DNS answer.
pub(crate) const DNS_REFUSAL_KEPT: Duration = Duration::from_secs(10);
/// Longest idle time of a connection.
pub(crate) const LINK_IDLE_MAX: Duration = Duration::from_secs(30);
/// Longest age of a connection, busy or not. Together with `DNS_KEPT`, a moved receiver is followed within two minutes.
pub(crate) const LINK_AGE_MAX: Duration = Duration::from_secs(60);
/// Shortest wait for a free connection that an exchange notes.
pub(crate) const WAIT_NOTED: Duration = Duration::from_millis(1);
/// Interval between sweeps of idle connections.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// Parsed URLs in the cache.
pub(crate) const TARGETS_MAX: usize = 16 * 1024;
pub(crate) const REPLY_HEADERS_MAX: usize = 128;
pub(crate) const REPLY_HEAD_BYTES_MAX: usize = 32 * 1024;
/// Bytes that a receiver may send before its reply's head is complete: interim replies and the head. One read buffer
/// more may have arrived when the limit is checked.
pub(crate) const REPLY_HEADS_BYTES_MAX: usize = 2 * REPLY_HEAD_BYTES_MAX;
/// Size of a connection's read buffer, and of its write buffer.
pub(crate) const LINK_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Longest `Retry-After` that is passed on; an HTTP date has 29 characters.
pub(crate) const RETRY_AFTER_BYTES_MAX: usize = 64;
/// Longest head of the egress proxy's answer.
pub(crate) const PROXY_HEAD_BYTES_MAX: usize = 8 * 1024;
