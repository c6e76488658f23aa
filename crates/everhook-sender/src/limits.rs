//! Every bound of the sender in one place; those shared with other crates are in `everhook_core::limits`.

use std::time::Duration;

/// Addresses of one name that are tried. All the answers are vetted, however many came.
pub(crate) const ADDRESSES_MAX: usize = 8;
/// How long a DNS answer is believed, whatever its time to live says.
pub(crate) const DNS_KEPT: Duration = Duration::from_secs(60);
/// How long the answer for one kind of address is awaited after the other kind's has come.
pub(crate) const DNS_OTHER_KIND_AWAITED: Duration = Duration::from_millis(250);
/// How often the system's name servers are looked up, at most.
pub(crate) const DNS_SETTINGS_CHECKED_EVERY: Duration = Duration::from_secs(5);
/// How long a DNS refusal is believed.
pub(crate) const DNS_REFUSAL_KEPT: Duration = Duration::from_secs(10);
/// How long a connection waits for its next request.
pub(crate) const LINK_IDLE_MAX: Duration = Duration::from_secs(30);
/// How old a connection gets, busy or not: with `DNS_KEPT`, a moved receiver is followed within two minutes.
pub(crate) const LINK_AGE_MAX: Duration = Duration::from_secs(60);
/// How often connections that waited too long are looked for.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// URLs remembered in parsed form.
pub(crate) const TARGETS_MAX: usize = 16 * 1024;
/// Headers of a reply.
pub(crate) const REPLY_HEADERS_MAX: usize = 128;
/// Size of a reply's head.
pub(crate) const REPLY_HEAD_BYTES_MAX: usize = 32 * 1024;
/// What a receiver may send before the head of its reply has come: all interim replies and the head. What has arrived when the head is
/// read may be more, by one read buffer.
pub(crate) const REPLY_HEADS_BYTES_MAX: usize = 2 * REPLY_HEAD_BYTES_MAX;
/// Size of a connection's read buffer, and of its write buffer.
pub(crate) const LINK_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Longest `Retry-After` that is passed on; a date has 29 characters.
pub(crate) const RETRY_AFTER_BYTES_MAX: usize = 64;
