//! Every bound in one place. A loop, queue, body or batch without an entry here is a mistake.

use std::time::Duration;

/// Largest request body the API takes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How much of a receiver's reply is kept; the rest is not read.
pub const REPLY_BYTES_MAX: usize = 16 * 1024;
/// Deepest nesting of a payload, so that every JSON parser on the way can read it.
pub const PAYLOAD_DEPTH_MAX: usize = 128;
/// Longest uid, event type name, channel or tag.
pub const NAME_CHARS_MAX: usize = 256;
/// Largest metadata, as JSON text.
pub const METADATA_BYTES_MAX: usize = 4096;
/// Channels an endpoint may listen to.
pub const ENDPOINT_CHANNELS_MAX: usize = 10;
/// Channels one message may name.
pub const MESSAGE_CHANNELS_MAX: usize = 10;
/// Tags one message may have.
pub const MESSAGE_TAGS_MAX: usize = 8;
/// Custom headers of an endpoint.
pub const HEADERS_MAX: usize = 64;
/// Longest value of a custom header.
pub const HEADER_VALUE_BYTES_MAX: usize = 4096;
/// Longest URL of an endpoint.
pub const URL_BYTES_MAX: usize = 4096;
/// Old signing keys that may still sign after rotations.
pub const OLD_KEYS_MAX: usize = 10;
/// How far ahead of its acceptance a message may be delivered.
pub const DELIVER_AHEAD_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Largest phase a caller may name: every JSON parser reads it exactly, and resets have room above it.
pub const PHASE_MAX: i64 = (1 << 53) - 1;
/// Longest list page.
pub const PAGE_MAX: usize = 250;
/// List page where none is asked for.
pub const PAGE_DEFAULT: usize = 50;
/// Longest delay between two attempts, whatever the policy or the receiver asks.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a lane rests after a timeout or a throttled attempt, where the receiver did not say.
pub const LANE_HOLD_MAX: Duration = Duration::from_secs(60);
/// Most entries of a retry schedule.
pub const RETRY_DELAYS_MAX: usize = 100;
/// How often a task may kill its holder before it is given up as poison.
pub const CRASHES_MAX: u32 = 5;
/// A reclaimed task is due after at most this, so that what one crash freed does not start at one instant.
pub const RECLAIM_JITTER: Duration = Duration::from_millis(500);
/// How long an idempotency key is remembered.
pub const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(12 * 3600);
/// How long messages and their attempts are kept.
pub const MESSAGES_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// Messages in one append transaction.
pub const APPEND_BATCH_MAX: usize = 500;
/// Payload bytes in one append transaction.
pub const APPEND_BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Messages waiting for an append; past it, requests wait before they are read any further.
pub const APPEND_QUEUE_MAX: usize = 4096;
/// Settlements in one transaction.
pub const SETTLE_BATCH_MAX: usize = 500;
/// Settlements waiting for a transaction: what a node may have sent and not yet written, beside its slots.
pub const SETTLE_QUEUE_MAX: usize = 4096;
/// Lanes one lease looks at.
pub const LEASE_LANES_MAX: usize = 256;
/// Tasks one lease takes.
pub const LEASE_TASKS_MAX: usize = 500;
/// Tasks one sweep takes over.
pub const RECLAIM_BATCH_MAX: usize = 500;
/// Sessions in one list of nodes.
pub const SESSIONS_LISTED_MAX: usize = 1000;
/// Dead tasks put back in one transaction.
pub const REDRIVE_BATCH_MAX: usize = 1000;
/// Endpoints one application may have.
pub const ENDPOINTS_MAX: usize = 10_000;
