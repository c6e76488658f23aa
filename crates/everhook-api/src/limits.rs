//! The bounds of the HTTP side. What messages, names and pages may be is bounded in `everhook_core::limits`.

use std::time::Duration;

/// Connections of the API served at once where the system has the files for them; more wait in the listen queue.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Connections served at once by the listener for health and metrics.
pub(crate) const OPS_CONNECTIONS_MAX: usize = 64;
/// How many of them one address may have.
pub(crate) const OPS_CONNECTIONS_PER_ADDRESS: usize = 32;
/// Bytes of answers that the system keeps for a client which has not taken them yet (Linux doubles it for its own needs).
pub(crate) const SEND_BUFFER_BYTES: usize = 128 * 1024;
/// How long a client has to take `WRITE_BYTES_MIN` of an answer that waits for it.
pub(crate) const WRITE_WINDOW: Duration = Duration::from_secs(30);
/// How much of an answer a client has to take within `WRITE_WINDOW`, if there is as much left.
pub(crate) const WRITE_BYTES_MIN: usize = 16 * 1024;
/// How long a connection may be idle, or take to send the head of a request.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest head of a request.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long the body of a request may take.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of a body that is too large is read and thrown away, so that the client reads our answer instead of a reset.
pub(crate) const BODY_DISCARDED_MAX: usize = 32 * 1024 * 1024;
/// Pause after the system refused a new connection, for example because files ran out.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest idempotency key.
pub(crate) const IDEMPOTENCY_KEY_CHARS_MAX: usize = 256;

/// What is known of an API key is read again after this.
pub(crate) const KEY_FRESH: Duration = Duration::from_secs(2);
/// What is known of an API key is never used after this: a revoked key stops within it on every replica.
pub(crate) const KEY_STALE: Duration = Duration::from_secs(4);
/// While one request reads a key again, the others go on with what is known for this long.
pub(crate) const KEY_REFRESH: Duration = Duration::from_millis(500);
/// API keys remembered; beyond it the memory begins anew.
pub(crate) const KEYS_CACHED_MAX: usize = 10_000;
/// Environments remembered; beyond it the memory begins anew.
pub(crate) const ENVIRONMENTS_CACHED_MAX: usize = 10_000;
/// How far a token's clock may be off ours.
pub(crate) const TOKEN_LEEWAY: Duration = Duration::from_secs(60);
/// The shortest life that a request may ask for an application token.
pub(crate) const TOKEN_EXPIRY_MIN: Duration = Duration::from_secs(3600);
/// The longest one, and the one of a token whose request does not say.
pub(crate) const TOKEN_EXPIRY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest session id of an application token.
pub(crate) const TOKEN_SESSION_CHARS_MAX: usize = 64;

/// How often a change is tried anew when others change the same object.
pub(crate) const REPLACE_TRIES_MAX: usize = 10;
/// Transactions of one redrive request; what is left is for the next one.
pub(crate) const REDRIVE_ROUNDS_MAX: usize = 20;
/// Transactions of one request that retries everything that was set aside; what is left is for the next one.
pub(crate) const RETRY_ROUNDS_MAX: usize = 20;
/// Pieces of the event type list that are searched for what an application token may see.
pub(crate) const VISIBLE_ROUNDS_MAX: usize = 40;

/// How long an old signing key goes on signing, where the request does not say.
pub(crate) const ROTATE_GRACE_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// The longest a request may ask for.
pub(crate) const ROTATE_GRACE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long the key of a unique job counts, where the request does not say.
pub(crate) const UNIQUE_WINDOW_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// How long a worker's lease lasts, where it does not say.
pub(crate) const WORKER_LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest lease a worker gets.
pub(crate) const WORKER_LEASE_SHORTEST: Duration = Duration::from_secs(5);
/// The longest lease a worker gets: for so long its jobs wait when it dies.
pub(crate) const WORKER_LEASE_LONGEST: Duration = Duration::from_secs(300);
/// The longest a request for jobs waits for the first one.
pub(crate) const WORKER_WAIT_MAX: Duration = Duration::from_secs(60);
/// Jobs that a worker may say it holds.
pub(crate) const WORKER_HELD_MAX: usize = 10_000;
/// Runs of a schedule that are shown: the latest ones.
pub(crate) const RUNS_SHOWN: usize = 20;
/// Slices of one request that puts dead jobs back; what is left is for the next one.
pub(crate) const JOB_REDRIVE_ROUNDS_MAX: usize = 40;

/// The longest stored answer of a request with an idempotency key.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The longest wait for the answer of the same request that is still running.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(3);

/// The time between two looks for that answer.
pub(crate) const ANSWER_POLL: Duration = Duration::from_millis(100);
