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
/// Longest name for people: of an application, a group of event types, a worker, a batch.
pub const TITLE_CHARS_MAX: usize = 256;
/// Longest description of an endpoint or an event type.
pub const DESCRIPTION_CHARS_MAX: usize = 4096;
/// Longest text that a list is searched for.
pub const SEARCH_CHARS_MAX: usize = 256;
/// Event types that a list is filtered by.
pub const SEARCH_TYPES_MAX: usize = 500;
/// Feature flags of an application token.
pub const FEATURE_FLAGS_MAX: usize = 25;
/// Versions of an event type's schema.
pub const SCHEMAS_MAX: usize = 100;
/// Largest schemas of an event type, all versions as JSON text.
pub const SCHEMAS_BYTES_MAX: usize = 256 * 1024;
/// Longest content type of a raw payload.
pub const CONTENT_TYPE_BYTES_MAX: usize = 256;
/// Largest metadata, as JSON text.
pub const METADATA_BYTES_MAX: usize = 4096;
/// Event types an endpoint may ask for.
pub const ENDPOINT_EVENT_TYPES_MAX: usize = 500;
/// The names of event types that an endpoint asks for, together: every fan-out of its application holds them.
pub const ENDPOINT_EVENT_TYPES_BYTES_MAX: usize = 8 * 1024;
/// Channels an endpoint may listen to.
pub const ENDPOINT_CHANNELS_MAX: usize = 10;
/// Channels one message may name.
pub const MESSAGE_CHANNELS_MAX: usize = 10;
/// Tags one message may have.
pub const MESSAGE_TAGS_MAX: usize = 8;
/// Custom headers of an endpoint.
pub const HEADERS_MAX: usize = 64;
/// Longest name of a custom header.
pub const HEADER_NAME_BYTES_MAX: usize = 256;
/// Names and values of an endpoint's custom headers, together: every fan-out of its application holds them.
pub const HEADERS_BYTES_MAX: usize = 8 * 1024;
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
/// Bytes of a list page: one row more may begin below it, so that a page has a row at least.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Rows that one request looks at in search of those that its filter wants. An iterator goes on behind them.
pub const SCAN_ROWS_MAX: usize = 5000;
/// How far the time in an id may be off the time of what it names: of nodes that drew it, of requests that waited.
pub const ID_SKEW_MAX: Duration = Duration::from_secs(3600);
/// How long after an attempt began its id may have been drawn: its node may have died, and the others been down.
pub const ATTEMPT_SKEW_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a search of one request may take in the store.
pub const SEARCH_TIME_MAX: Duration = Duration::from_secs(4);
/// How long a search may wait until others have ended.
pub const SEARCH_WAIT_MAX: Duration = Duration::from_secs(10);
/// Longest delay between two attempts, whatever the policy or the receiver asks.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a lane rests after a timeout or a throttled attempt, where the receiver did not say.
pub const LANE_HOLD_MAX: Duration = Duration::from_secs(60);
/// Most entries of a retry schedule.
pub const RETRY_DELAYS_MAX: usize = 100;
/// Longest time a handler may put its job off by without using an attempt.
pub const SNOOZE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
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
/// How long a node may have ended attempts to write and write none of them before it is not ready.
pub const SETTLE_STALL_MAX: Duration = Duration::from_secs(30);
/// Lanes one lease looks at.
pub const LEASE_LANES_MAX: usize = 256;
/// Tasks one lease takes.
pub const LEASE_TASKS_MAX: usize = 500;
/// Jobs one lease takes: more, because their records are smaller than messages, and all of them may be of one lane, which gives to one
/// lease at a time.
pub const LEASE_JOBS_MAX: usize = 1000;
/// Tasks one sweep takes over.
pub const RECLAIM_BATCH_MAX: usize = 500;
/// Sessions in one list of nodes.
pub const SESSIONS_LISTED_MAX: usize = 1000;
/// Waiting tasks counted for metrics; where there are more, this is what is told.
pub const BACKLOG_COUNTED_MAX: usize = 100_000;
/// Lanes in which the oldest task that is due is looked for, for metrics: those whose turn it has been longest.
pub const BACKLOG_LANES_MAX: usize = 64;
/// Dead tasks put back in one transaction.
pub const REDRIVE_BATCH_MAX: usize = 1000;
/// Endpoints one application may have.
pub const ENDPOINTS_MAX: usize = 10_000;

/// Attempts of a job that says nothing of them.
pub const JOB_ATTEMPTS_DEFAULT: u32 = 10;
/// First delay of a job that says nothing of it.
pub const JOB_BACKOFF_BASE: Duration = Duration::from_secs(5);
/// Longest delay of a job that says nothing of it.
pub const JOB_BACKOFF_CAP: Duration = Duration::from_secs(3600);
/// How long an attempt of a job may take, where the job does not say.
pub const JOB_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15 * 60);
/// Shortest such time.
pub const JOB_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Longest such time.
pub const JOB_TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long the target of a queue may take to answer a pushed job, unless the settings say otherwise; a job's own timeout may be shorter.
pub const PUSH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// Longest that the settings may say: a push keeps its slot until then.
pub const PUSH_TIMEOUT_MAX: Duration = Duration::from_secs(15 * 60);
/// How far ahead a job may be put.
pub const JOB_DELAY_MAX: Duration = Duration::from_secs(5 * 366 * 24 * 3600);
/// How long the key of a unique job counts at most.
pub const JOB_UNIQUE_WINDOW_MAX: Duration = Duration::from_secs(90 * 24 * 3600);
/// Longest unique key or concurrency key.
pub const JOB_KEY_BYTES_MAX: usize = 256;
/// Longest name of a job, for people.
pub const JOB_NAME_BYTES_MAX: usize = 256;
/// Tags one job may have.
pub const JOB_TAGS_MAX: usize = 8;
/// Largest limit of a queue or of a concurrency key.
pub const QUEUE_LIMIT_MAX: u32 = 100_000;
/// Fastest rate of a queue, in jobs a second.
pub const QUEUE_RATE_MAX: u32 = 100_000;
/// Due jobs of one lane that a worker looks at which takes only some kinds.
pub const KIND_SCAN_MAX: usize = 10_000;
/// Attempts of one job that are shown: the latest ones.
pub const JOB_ATTEMPTS_SHOWN: usize = 100;
/// Queues that one worker takes from.
pub const WORKER_QUEUES_MAX: usize = 100;
/// Kinds that one worker names.
pub const WORKER_KINDS_MAX: usize = 100;
/// Jobs that one lease of a remote worker brings.
pub const WORKER_LEASE_MAX: usize = 500;
/// Jobs in one request.
pub const JOBS_BULK_MAX: usize = 1000;
/// Longest text that comes with a progress.
pub const PROGRESS_TEXT_BYTES_MAX: usize = 1024;
/// Largest result of a job that is kept.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Longest error text of an attempt that is kept.
pub const ERROR_BYTES_MAX: usize = 4096;
/// Log lines of an attempt that are kept: the last ones.
pub const LOG_LINES_MAX: usize = 100;
/// Longest log line that is kept.
pub const LOG_LINE_BYTES_MAX: usize = 512;
/// All that an attempt keeps of what its worker said, before it is JSON.
pub const NOTE_BYTES_MAX: usize = 12 * 1024;
/// Lanes of a queue that one transaction deletes.
pub const QUEUE_LANES_DELETED_MAX: usize = 1000;
/// Failed jobs that the announcement of a batch lists.
pub const BATCH_FAILED_LISTED_MAX: usize = 100;
/// Jobs that one call may retry or skip.
pub const BATCH_SELECTION_MAX: usize = 1000;

/// Longest cron expression.
pub const CRON_BYTES_MAX: usize = 256;
/// Years a cron expression is searched for its next date. The rarest is a 29 February on one weekday: 40 years across 2100.
pub const CRON_YEARS_MAX: i16 = 41;
/// Changes of a zone's clocks that one search walks over: those of `CRON_YEARS_MAX`, for zones that change six times a year.
pub const CRON_SEGMENTS_MAX: usize = 256;
/// Shortest interval of a schedule.
pub const SCHEDULE_EVERY_MIN: Duration = Duration::from_secs(1);
/// Longest interval of a schedule.
pub const SCHEDULE_EVERY_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Longest jitter of a schedule.
pub const SCHEDULE_JITTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// How late a run may be found before it counts as missed, where the schedule does not say: a fail-over takes a lease.
pub const SCHEDULE_GRACE_DEFAULT: Duration = Duration::from_secs(30);
/// Longest such time a schedule may ask for.
pub const SCHEDULE_GRACE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Most missed runs that are made up for at once.
pub const SCHEDULE_CATCH_UP_MAX: u32 = 100;
/// How soon a run that waits for the end of the one before is looked at again.
pub const SCHEDULE_RECHECK: Duration = Duration::from_secs(1);
/// Future times of a schedule that are shown.
pub const SCHEDULE_UPCOMING: usize = 5;

/// Rows of an outbox that are relayed together; so many that they fit one append transaction.
pub const OUTBOX_BATCH_MAX: usize = APPEND_BATCH_MAX;
/// Bytes of an outbox's rows that are relayed together; one row more may begin below it.
pub const OUTBOX_BATCH_BYTES_MAX: usize = APPEND_BATCH_BYTES_MAX;
/// Largest row of an outbox that is read: a payload as large as the API takes, and every name as long as it may be.
pub const OUTBOX_ROW_BYTES_MAX: usize = BODY_BYTES_MAX + 64 * 1024;
/// Rows of an outbox that are counted; more are told as this many.
pub const OUTBOX_COUNTED_MAX: usize = 100_000;
/// Outboxes that one server relays.
pub const OUTBOXES_MAX: usize = 64;
/// Applications whose uid is remembered; beyond it the memory begins anew.
pub const UIDS_CACHED_MAX: usize = 10_000;

/// Longest unknown name that a similar known one is suggested for.
pub const SUGGESTED_FOR_CHARS_MAX: usize = 64;
