//! Limits of the HTTP server and the API. The limits of messages, names and pages are in `everhook_core::limits`.

use std::time::Duration;

/// Concurrent connections of the API, if the system allows as many open files. More connections wait in the listen
/// queue.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Concurrent connections of the listener for health and metrics.
pub(crate) const OPS_CONNECTIONS_MAX: usize = 64;
/// Concurrent connections of one client address to that listener.
pub(crate) const OPS_CONNECTIONS_PER_ADDRESS: usize = 32;
/// Size of a connection's send buffer in the system, for responses that the client has not read. Linux doubles it.
pub(crate) const SEND_BUFFER_BYTES: usize = 128 * 1024;
/// Time in which a client must read `WRITE_BYTES_MIN` of a waiting response.
pub(crate) const WRITE_WINDOW: Duration = Duration::from_secs(30);
/// Bytes of a response that a client must read within `WRITE_WINDOW`, unless less is left.
pub(crate) const WRITE_BYTES_MIN: usize = 16 * 1024;
/// Interval between checks for a renewed certificate of the listener.
pub(crate) const TLS_FILES_CHECKED_EVERY: Duration = Duration::from_secs(5);
/// Maximum time of a TLS handshake.
pub(crate) const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that a connection is idle or takes to send the head of a request.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest head of a request.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum time to receive the body of a request.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an oversized body that are read and discarded, so that the client gets the response and not a reset.
pub(crate) const BODY_DISCARDED_MAX: usize = 32 * 1024 * 1024;
/// Pause after accepting a connection failed, for example because the process is out of file descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest idempotency key.
pub(crate) const IDEMPOTENCY_KEY_CHARS_MAX: usize = 256;

/// Age at which a cached key or token is read again.
pub(crate) const KEY_FRESH: Duration = Duration::from_secs(2);
/// Age after which a cached key or token is not used. On every replica a revoked one stops working within this time.
pub(crate) const KEY_STALE: Duration = Duration::from_secs(4);
/// Time for which other requests use the cached key while one request reads it again.
pub(crate) const KEY_REFRESH: Duration = Duration::from_millis(500);
/// Keys or tokens in one cache. A full cache is cleared.
pub(crate) const KEYS_CACHED_MAX: usize = 10_000;
/// Client addresses whose failed authentications are counted. A full table forgets the ended minutes, or else all.
pub(crate) const FAILURE_ADDRESSES_MAX: usize = 10_000;
/// Time between two notes of the last use of a key.
pub(crate) const KEY_USE_NOTED: Duration = Duration::from_secs(60);
/// Longest wait for the note of the last use of a key.
pub(crate) const KEY_USE_WAIT: Duration = Duration::from_secs(1);
/// Active keys of an environment, and active admin keys.
pub(crate) const KEYS_MAX: usize = 1000;
/// Longest principal, reason or path in the audit log.
pub(crate) const AUDIT_TEXT_BYTES_MAX: usize = 1000;
/// Entries of the audit log that a check reads at once.
pub(crate) const AUDIT_VERIFY_PIECE: usize = 500;
/// Reads of one request that checks the audit log. The next request continues.
pub(crate) const AUDIT_VERIFY_ROUNDS: usize = 100;
/// Environments in the cache. A full cache is cleared.
pub(crate) const ENVIRONMENTS_CACHED_MAX: usize = 10_000;
/// Tolerated difference between the clocks of the token's issuer and this server.
pub(crate) const TOKEN_LEEWAY: Duration = Duration::from_secs(60);
/// Shortest lifetime that a request may set for an application token.
pub(crate) const TOKEN_EXPIRY_MIN: Duration = Duration::from_secs(3600);
/// Longest time after which a request may let the tokens of an application end.
pub(crate) const TOKEN_END_DELAY_MAX: Duration = Duration::from_secs(3 * 24 * 3600);
/// Sessions whose tokens one request may end.
pub(crate) const TOKEN_SESSIONS_MAX: usize = 1000;
/// Longest session id of an application token.
pub(crate) const TOKEN_SESSION_CHARS_MAX: usize = 64;

/// Lifetime of a session of the dashboard.
pub(crate) const SESSION_LIFE: Duration = Duration::from_secs(12 * 3600);
/// Lifetime of a link that signs in.
pub(crate) const SIGN_IN_LINK_LIFE: Duration = Duration::from_secs(600);

/// Tries of a change that conflicts with concurrent changes of the same object.
pub(crate) const REPLACE_TRIES_MAX: usize = 10;
/// Transactions of one redrive request. The next request handles the rest.
pub(crate) const REDRIVE_ROUNDS_MAX: usize = 20;
/// Transactions of one request that retries all rows that were set aside. The next request handles the rest.
pub(crate) const RETRY_ROUNDS_MAX: usize = 20;
/// Pieces of the list of event types that one request of an application token searches for visible types.
pub(crate) const VISIBLE_ROUNDS_MAX: usize = 40;

/// Default time for which deliveries are also signed with the old key after a rotation.
pub(crate) const ROTATE_GRACE_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Longest such time.
pub(crate) const ROTATE_GRACE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Default time for which the key of a unique job is reserved.
pub(crate) const UNIQUE_WINDOW_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Default duration of a worker's lease.
pub(crate) const WORKER_LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// Shortest lease of a worker.
pub(crate) const WORKER_LEASE_SHORTEST: Duration = Duration::from_secs(5);
/// Longest lease of a worker. After a crash of the worker, its jobs wait for this time at most.
pub(crate) const WORKER_LEASE_LONGEST: Duration = Duration::from_secs(300);
/// Longest time that a request for jobs waits for the first job.
pub(crate) const WORKER_WAIT_MAX: Duration = Duration::from_secs(60);
/// Entries in a worker's list of held jobs.
pub(crate) const WORKER_HELD_MAX: usize = 10_000;
/// Runs in the history of a schedule, the latest ones.
pub(crate) const RUNS_SHOWN: usize = 20;
/// Transactions of one request that redrives dead jobs. The next request handles the rest.
pub(crate) const JOB_REDRIVE_ROUNDS_MAX: usize = 40;
/// Longest period of an endpoint's statistics.
pub(crate) const STATS_PERIOD_MAX: Duration = Duration::from_secs(28 * 24 * 3600);
/// Largest difference between the clocks of a client and the server in a request for statistics.
pub(crate) const STATS_CLOCK_SKEW: Duration = Duration::from_secs(300);
/// The most event types of one import or export.
pub(crate) const EVENT_TYPES_MOVED_MAX: usize = 2_000;

/// The highest rate of a replay, in messages per second.
pub(crate) const REPLAY_RATE_MAX: u32 = 10_000;
/// The longest window of a recovery.
pub(crate) const RECOVER_WINDOW_MAX: Duration = Duration::from_secs(14 * 24 * 3600);
/// Messages whose payloads one request may remove.
pub(crate) const EXPUNGE_MAX: usize = 250;
/// Payloads that one request removes at the same time, so that their transactions share a commit.
pub(crate) const EXPUNGE_AT_ONCE: usize = 16;
/// Applications that a request for statistics may name.
pub(crate) const USAGE_APPLICATIONS_MAX: usize = 1000;

/// The longest stored answer of a request with an idempotency key.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The longest wait for the answer of the same request that is still running.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(3);

/// The time between two looks for that answer.
pub(crate) const ANSWER_POLL: Duration = Duration::from_millis(100);

/// Failing endpoints that an overview shows.
pub(crate) const OVERVIEW_ENDPOINTS_MAX: usize = 10;
/// Queues that an overview shows.
pub(crate) const OVERVIEW_QUEUES_MAX: usize = 20;

/// Open streams of live updates on one node.
pub(crate) const LIVE_STREAMS_MAX: usize = 200;
/// The shortest time between two hints of a stream.
pub(crate) const LIVE_PAUSE: Duration = Duration::from_millis(300);
/// The interval at which a stream looks whether the node stops.
pub(crate) const LIVE_TICK: Duration = Duration::from_secs(1);
/// The interval at which a stream checks its session and key.
pub(crate) const LIVE_CHECK: Duration = Duration::from_secs(5);

/// Default time for which the condition of an alert must hold.
pub(crate) const ALERT_FOR_SECONDS: u32 = 60;
/// Default time for which the condition of an alert must be gone.
pub(crate) const ALERT_RESOLVE_SECONDS: u32 = 300;
/// Default time between two pages of an alert.
pub(crate) const ALERT_COOLDOWN_SECONDS: u32 = 3600;

/// Endpoints that the use of a quota counts.
pub(crate) const USAGE_ENDPOINTS_MAX: usize = 10_000;
