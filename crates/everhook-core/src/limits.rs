//! Bounds of bodies, names, batches, queues, loops and times.

use std::time::Duration;

/// Largest request body of the API.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Stored bytes of a receiver's reply; further bytes are not read.
pub const REPLY_BYTES_MAX: usize = 16 * 1024;
/// Headers of a reply that an attempt keeps.
pub const REPLY_HEADERS_KEPT_MAX: usize = 24;
/// Longest kept name of a reply header; the rest is cut.
pub const REPLY_HEADER_NAME_BYTES_MAX: usize = 64;
/// Longest kept value of a reply header; the rest is cut.
pub const REPLY_HEADER_VALUE_BYTES_MAX: usize = 160;
/// Deepest nesting of a payload, so that common JSON parsers can read it.
pub const PAYLOAD_DEPTH_MAX: usize = 128;
/// Longest uid, event type name, channel or tag.
pub const NAME_CHARS_MAX: usize = 256;
/// Longest display name of an application, group of event types, worker or batch.
pub const TITLE_CHARS_MAX: usize = 256;
/// Longest description of an endpoint or an event type.
pub const DESCRIPTION_CHARS_MAX: usize = 4096;
/// Longest search text of a list.
pub const SEARCH_CHARS_MAX: usize = 256;
/// Event types in the filter of a list.
pub const SEARCH_TYPES_MAX: usize = 500;
/// Feature flags of an application token or an integration.
pub const FEATURE_FLAGS_MAX: usize = 25;
/// Longest life of an application token that the server signs.
pub const TOKEN_LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Time for which the records of a token are kept after it has expired, because clocks differ.
pub const TOKEN_MARGIN: Duration = Duration::from_secs(3600);
/// Versions of an event type's schema.
pub const SCHEMAS_MAX: usize = 100;
/// Size of all schemas of an event type, as JSON text.
pub const SCHEMAS_BYTES_MAX: usize = 256 * 1024;
/// Longest content type of a raw payload.
pub const CONTENT_TYPE_BYTES_MAX: usize = 256;
/// Largest metadata, as JSON text.
pub const METADATA_BYTES_MAX: usize = 4096;
/// Event types that an endpoint may list.
pub const ENDPOINT_EVENT_TYPES_MAX: usize = 500;
/// Total length of an endpoint's event type names: every fan-out of its application holds them in memory.
pub const ENDPOINT_EVENT_TYPES_BYTES_MAX: usize = 8 * 1024;
/// Longest filter expression of an endpoint.
pub const FILTER_BYTES_MAX: usize = 1024;
/// Parts of a filter expression.
pub const FILTER_NODES_MAX: usize = 200;
/// Deepest nesting of a filter expression.
pub const FILTER_DEPTH_MAX: usize = 24;
/// Memory of a compiled pattern in a filter expression.
pub const FILTER_PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Steps of one evaluation of a filter expression.
pub const FILTER_STEPS_MAX: usize = 20_000;
/// Steps of all filter expressions for one message.
pub const FILTER_MESSAGE_STEPS_MAX: usize = 1_000_000;
/// Longest template of one part of a chat message.
pub const CHAT_TEMPLATE_BYTES_MAX: usize = 2048;
/// Event types with a template of their own, in a chat endpoint.
pub const CHAT_TYPES_MAX: usize = 50;
/// Fields of a chat message.
pub const CHAT_FIELDS_MAX: usize = 10;
/// People that a chat message mentions.
pub const CHAT_MENTIONS_MAX: usize = 20;
/// Longest id of a mentioned person.
pub const CHAT_MENTION_BYTES_MAX: usize = 128;
/// Longest secret of a signed chat webhook.
pub const CHAT_SECRET_BYTES_MAX: usize = 256;
/// Longest JSON pointer to the addresses of people.
pub const CHAT_POINTER_BYTES_MAX: usize = 256;
/// People who get a direct message for one message.
pub const CHAT_PEOPLE_MAX: usize = 10;
/// Longest text among the credentials of a chat app.
pub const CHAT_APP_TEXT_BYTES_MAX: usize = 512;
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
/// Total length of an endpoint's custom headers, names and values: every fan-out of its application holds them in
/// memory.
pub const HEADERS_BYTES_MAX: usize = 8 * 1024;
/// Longest value of a custom header.
pub const HEADER_VALUE_BYTES_MAX: usize = 4096;
/// Longest user name, password, client id or client secret of an endpoint's authentication.
pub const AUTH_TEXT_BYTES_MAX: usize = 4096;
/// Longest client certificate with chain and key, and longest list of authorities, of an endpoint.
pub const AUTH_PEM_BYTES_MAX: usize = 32 * 1024;
/// Scopes of an endpoint's OAuth client.
pub const OAUTH_SCOPES_MAX: usize = 32;
/// Longest scope.
pub const OAUTH_SCOPE_BYTES_MAX: usize = 256;
/// Additional parameters of a token request.
pub const OAUTH_PARAMS_MAX: usize = 16;
/// Longest URL of an endpoint.
pub const URL_BYTES_MAX: usize = 4096;
/// Old signing keys that may still sign after rotations.
pub const OLD_KEYS_MAX: usize = 10;
/// How far after acceptance a delivery may be scheduled.
pub const DELIVER_AHEAD_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Largest phase that a caller may send: JSON parsers read it exactly, and resets still have larger numbers.
pub const PHASE_MAX: i64 = (1 << 53) - 1;
/// Largest page of a list.
pub const PAGE_MAX: usize = 250;
/// Default page of a list.
pub const PAGE_DEFAULT: usize = 50;
/// Soft limit of a page: a row that starts below it is still included, so that each page has at least one row.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Rows that one filtered request scans. The iterator continues after them.
pub const SCAN_ROWS_MAX: usize = 5000;
/// Messages whose payloads one search for a text reads. Payloads are large, so this is less than `SCAN_ROWS_MAX`.
pub const SCAN_PAYLOADS_MAX: usize = 1000;
/// Longest text that is searched in payloads.
pub const SEARCH_TEXT_BYTES_MAX: usize = 256;
/// Largest difference between the time in an id and the time of its object: clocks differ, and requests wait.
pub const ID_SKEW_MAX: Duration = Duration::from_secs(3600);
/// Largest delay between the start of an attempt and the creation of its id. The node may have crashed and the others
/// been down.
pub const ATTEMPT_SKEW_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Time after which a search of deliveries ends its page. The iterator continues after it.
pub const SEARCH_PAGE_TIME: Duration = Duration::from_secs(1);
/// Longest time of one search in the store.
pub const SEARCH_TIME_MAX: Duration = Duration::from_secs(4);
/// Longest time a search waits for other searches.
pub const SEARCH_WAIT_MAX: Duration = Duration::from_secs(10);
/// Longest delay between two attempts, whatever the policy or receiver asks for.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest hold of a lane after a timeout or `429` without `Retry-After`.
pub const LANE_HOLD_MAX: Duration = Duration::from_secs(60);
/// Entries of a retry schedule.
pub const RETRY_DELAYS_MAX: usize = 100;
/// Largest random share of a retry delay.
pub const JITTER_PERCENT_MAX: u8 = 100;
/// Statuses and classes in a list of final statuses.
pub const FINAL_STATUSES_MAX: usize = 32;
/// Longest time for a receiver to answer a delivery, which occupies a slot until then.
pub const SEND_TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// Event types with settings of their own, in one policy.
pub const POLICY_TYPES_MAX: usize = 32;
/// Deliveries in one period of a rate limit.
pub const RATE_COUNT_MAX: u32 = 100_000;
/// Longest period of a rate limit.
pub const RATE_SECONDS_MAX: u32 = 86_400;
/// Largest quota of endpoints.
pub const ENDPOINTS_QUOTA_MAX: u32 = 1_000_000;
/// Largest quota of stored messages.
pub const STORED_MESSAGES_QUOTA_MAX: u64 = 1_000_000_000_000;
/// Quotas that a node reads at a time.
pub const QUOTAS_READ_MAX: usize = 10_000;
/// Stored messages that are counted in one statement.
pub const STORED_MESSAGES_PAGE: usize = 20_000;
/// Largest concurrency limit of an endpoint.
pub const CONCURRENCY_MAX: u32 = 10_000;
/// Attempts that a circuit breaker may wait for.
pub const BREAKER_ATTEMPTS_MAX: u32 = 10_000;
/// Longest window and longest open time of a circuit breaker.
pub const BREAKER_TIME_MAX: Duration = Duration::from_secs(3600);
/// Shortest time of failures after which an endpoint is disabled.
pub const DISABLE_AFTER_MIN: Duration = Duration::from_secs(5);
/// Longest time of failures after which an endpoint is disabled.
pub const DISABLE_AFTER_MAX: Duration = Duration::from_secs(90 * 24 * 3600);
/// Default time of failures after which an endpoint is disabled.
pub const DISABLE_AFTER_DEFAULT: Duration = Duration::from_secs(5 * 24 * 3600);
/// Longest JSON pointer of an ordering key.
pub const ORDERING_KEY_BYTES_MAX: usize = 256;
/// Longest template of a legacy signature.
pub const LEGACY_TEMPLATE_BYTES_MAX: usize = 256;
/// Longest snooze of a job.
pub const SNOOZE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Crashes of holders after which a task dies as poison.
pub const CRASHES_MAX: u32 = 5;
/// Spread of the due times of reclaimed tasks, so that one crash does not start all of them at once.
pub const RECLAIM_JITTER: Duration = Duration::from_millis(500);
/// Longest time for which a running request holds its idempotency key. A crashed request blocks its key for this time.
pub const REQUEST_CLAIM: Duration = Duration::from_secs(60);
/// Lifetime of an idempotency key.
pub const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(12 * 3600);
/// Retention of messages and their attempts.
pub const MESSAGES_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// Messages in one append transaction.
pub const APPEND_BATCH_MAX: usize = 500;
/// Payload bytes in one append transaction.
pub const APPEND_BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Messages that wait for an append. Beyond it, requests wait before their bodies are read.
pub const APPEND_QUEUE_MAX: usize = 4096;
pub const SETTLE_BATCH_MAX: usize = 500;
/// Settlements that wait for a transaction: finished attempts that are not yet recorded, beside those in slots.
pub const SETTLE_QUEUE_MAX: usize = 4096;
/// A node with unrecorded attempts that records none for this time is not ready.
pub const SETTLE_STALL_MAX: Duration = Duration::from_secs(30);
/// Lanes that one lease visits.
pub const LEASE_LANES_MAX: usize = 256;
/// Ready lanes that one lease of deliveries passes over to find them, because their groups are at their share.
pub const LEASE_SCAN_MAX: usize = 1024;
/// Tasks that one lease returns.
pub const LEASE_TASKS_MAX: usize = 500;
/// Jobs that one lease returns. Larger than for tasks: job records are smaller than messages, and all jobs may be in
/// one lane, which serves one lease at a time.
pub const LEASE_JOBS_MAX: usize = 1000;
/// Tasks that one sweep reclaims.
pub const RECLAIM_BATCH_MAX: usize = 500;
/// Sessions in one list of nodes.
pub const SESSIONS_LISTED_MAX: usize = 1000;
/// Upper bound of the count of waiting tasks in metrics.
pub const BACKLOG_COUNTED_MAX: usize = 100_000;
/// Lanes whose oldest due task is sampled for metrics: the lanes that have waited longest.
pub const BACKLOG_LANES_MAX: usize = 64;
/// Endpoints with the most failures that one span of traffic lists.
pub const TRAFFIC_ENDPOINTS_MAX: usize = 20;
/// Time after which counts of traffic that could not be written are dropped.
pub const TRAFFIC_UNWRITTEN_MAX: Duration = Duration::from_secs(3600);
/// Time for which counts of traffic are kept by minute and by quarter of an hour.
pub const TRAFFIC_MINUTES_KEPT: Duration = Duration::from_secs(2 * 24 * 3600);
/// Time for which counts of traffic are kept by hour.
pub const TRAFFIC_HOURS_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);
/// Rows of traffic that one read returns, newest first: a day of quarters or a week of hours of 100 nodes.
pub const TRAFFIC_ROWS_MAX: usize = 20_000;
/// Rows of traffic that one statement writes.
pub const TRAFFIC_ROWS_WRITTEN_MAX: usize = 500;
/// Applications among which a message is looked up by its id alone, newest first.
pub const LOOKUP_APPLICATIONS_MAX: usize = 10_000;
/// Messages of all applications that one statement compares with a filter.
pub const PLACED_MESSAGES_MAX: usize = 250;
/// Statements that one page of the messages of all applications runs.
pub const PLACED_WINDOWS_MAX: usize = 8;
/// Endpoints whose failure groups one page lists.
pub const FAILURE_ENDPOINTS_MAX: usize = 50;
/// Dead deliveries of an endpoint that a list of failure groups counts, newest first.
pub const FAILURES_LISTED_MAX: usize = 1000;
/// Dead deliveries of an endpoint that one failure group counts, newest first.
pub const FAILURES_COUNTED_MAX: usize = 10_000;
/// Longest note of an operator about a failure group.
pub const NOTE_CHARS_MAX: usize = 1000;
/// Open tasks of an environment that one overview counts, of each state.
pub const OVERVIEW_TASKS_MAX: usize = 10_000;
/// Largest number in the statistics of a queue. Counting stops there.
pub const QUEUE_COUNTED_MAX: usize = 100_000;
/// Alert rules one environment may have.
pub const ALERTS_MAX: usize = 100;
/// Alert rules of all environments that one evaluation reads.
pub const ALERTS_READ_MAX: usize = 10_000;
/// Destinations of one alert rule, and of its escalation.
pub const ALERT_DESTINATIONS_MAX: usize = 20;
/// Pages that an alert remembers.
pub const ALERT_PAGES_KEPT: usize = 50;
/// Longest time of an alert rule, except for its window: a week.
pub const ALERT_SECONDS_MAX: u32 = 7 * 24 * 3600;
/// Shortest window of an alert rule: a span of traffic.
pub const ALERT_WINDOW_SECONDS_MIN: u32 = 60;
/// Longest window of an alert rule, in spans of a minute.
pub const ALERT_WINDOW_SECONDS_MAX: u32 = 6 * 3600;
/// Longest time over which the failure rate of one endpoint is measured, in seconds.
pub const ALERT_ENDPOINT_WINDOW_SECONDS_MAX: u32 = 3600;
/// Past values in the window of an alert rule.
pub const ALERT_SAMPLES_MAX: u32 = 12;
/// Longest description of an alert rule.
pub const ALERT_DESCRIPTION_CHARS_MAX: usize = 1000;
/// Attempts that one request for the statistics of an endpoint reads, newest first.
pub const STATS_ROWS_MAX: usize = 100_000;
/// Dead tasks that one transaction redrives.
pub const REDRIVE_BATCH_MAX: usize = 1000;
/// Endpoints one application may have.
pub const ENDPOINTS_MAX: usize = 10_000;
/// Integrations one application may have.
pub const INTEGRATIONS_MAX: usize = 100;

/// Default number of attempts of a job.
pub const JOB_ATTEMPTS_DEFAULT: u32 = 10;
/// Default of a job's first retry delay.
pub const JOB_BACKOFF_BASE: Duration = Duration::from_secs(5);
/// Default of a job's longest retry delay.
pub const JOB_BACKOFF_CAP: Duration = Duration::from_secs(3600);
/// Default timeout of a job attempt.
pub const JOB_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15 * 60);
/// Shortest timeout of a job attempt.
pub const JOB_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Longest timeout of a job attempt.
pub const JOB_TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Default timeout of a push; a job's own timeout may be shorter.
pub const PUSH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// Longest configurable push timeout: a push occupies its slot until then.
pub const PUSH_TIMEOUT_MAX: Duration = Duration::from_secs(15 * 60);
/// How far ahead a job may be scheduled.
pub const JOB_DELAY_MAX: Duration = Duration::from_secs(5 * 366 * 24 * 3600);
/// Longest lifetime of a unique key.
pub const JOB_UNIQUE_WINDOW_MAX: Duration = Duration::from_secs(90 * 24 * 3600);
/// Longest unique key or concurrency key.
pub const JOB_KEY_BYTES_MAX: usize = 256;
/// Longest display name of a job.
pub const JOB_NAME_BYTES_MAX: usize = 256;
/// Tags one job may have.
pub const JOB_TAGS_MAX: usize = 8;
/// Largest limit of a queue or of a concurrency key.
pub const QUEUE_LIMIT_MAX: u32 = 100_000;
/// Fastest rate of a queue, in jobs a second.
pub const QUEUE_RATE_MAX: u32 = 100_000;
/// Due jobs of one lane that a lease scans for a worker with a filter by kind.
pub const KIND_SCAN_MAX: usize = 10_000;
/// Shown attempts of one job, the latest ones.
pub const JOB_ATTEMPTS_SHOWN: usize = 100;
/// Queues that one worker may list.
pub const WORKER_QUEUES_MAX: usize = 100;
/// Kinds that one worker may list.
pub const WORKER_KINDS_MAX: usize = 100;
/// Jobs that one lease of a remote worker returns.
pub const WORKER_LEASE_MAX: usize = 500;
/// Consumers of one polled endpoint.
pub const POLL_CONSUMERS_MAX: usize = 100;
/// Messages in one batch request.
pub const MESSAGE_BATCH_MAX: usize = 1000;
/// Jobs in one bulk request.
pub const JOBS_BULK_MAX: usize = 1000;
/// Longest text of a progress report.
pub const PROGRESS_TEXT_BYTES_MAX: usize = 1024;
/// Largest stored result of a job.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Largest stored result of the server's own jobs, such as the statistics of an environment.
pub const OWN_RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest stored error of an attempt.
pub const ERROR_BYTES_MAX: usize = 4096;
/// Stored log lines of an attempt, the last ones.
pub const LOG_LINES_MAX: usize = 100;
pub const LOG_LINE_BYTES_MAX: usize = 512;
/// Stored bytes of an attempt's error and log together, before encoding as JSON.
pub const NOTE_BYTES_MAX: usize = 12 * 1024;
/// Lanes of a queue that one transaction deletes.
pub const QUEUE_LANES_DELETED_MAX: usize = 1000;
/// Failed jobs that a batch announcement lists.
pub const BATCH_FAILED_LISTED_MAX: usize = 100;
/// Jobs that one call may retry or skip.
pub const BATCH_SELECTION_MAX: usize = 1000;

pub const CRON_BYTES_MAX: usize = 256;
/// Years that a cron search covers. The rarest date is 29 February on a given weekday: 40 years across 2100.
pub const CRON_YEARS_MAX: i16 = 41;
/// Clock changes of a zone that one search crosses: `CRON_YEARS_MAX` years with six changes each.
pub const CRON_SEGMENTS_MAX: usize = 256;
/// Shortest interval of a schedule.
pub const SCHEDULE_EVERY_MIN: Duration = Duration::from_secs(1);
/// Longest interval of a schedule.
pub const SCHEDULE_EVERY_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Longest jitter of a schedule.
pub const SCHEDULE_JITTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// Default grace: a run found later than this counts as missed. A fail-over takes about one lease.
pub const SCHEDULE_GRACE_DEFAULT: Duration = Duration::from_secs(30);
/// Longest grace of a schedule.
pub const SCHEDULE_GRACE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Missed runs that a schedule catches up at once.
pub const SCHEDULE_CATCH_UP_MAX: u32 = 100;
/// Interval at which a run that waits for its predecessor is checked.
pub const SCHEDULE_RECHECK: Duration = Duration::from_secs(1);
/// Future times that a schedule shows.
pub const SCHEDULE_UPCOMING: usize = 5;

/// Outbox rows of one batch; they fit into one append transaction.
pub const OUTBOX_BATCH_MAX: usize = APPEND_BATCH_MAX;
/// How long a relay may hold the claim on an outbox. A relay that dies delays its rows by this much at most.
pub const OUTBOX_CLAIM: Duration = Duration::from_secs(5);
/// Soft limit of an outbox batch: a row that starts below it is still included.
pub const OUTBOX_BATCH_BYTES_MAX: usize = APPEND_BATCH_BYTES_MAX;
/// Largest outbox row that is read: the largest payload of the API, and names of maximal length.
pub const OUTBOX_ROW_BYTES_MAX: usize = BODY_BYTES_MAX + 64 * 1024;
/// Upper bound of the count of outbox rows.
pub const OUTBOX_COUNTED_MAX: usize = 100_000;
/// Outboxes that one server may relay.
pub const OUTBOXES_MAX: usize = 64;
/// Cached uids of applications. A full cache is cleared.
pub const UIDS_CACHED_MAX: usize = 10_000;

/// Longest unknown name for which a similar known name is suggested.
pub const SUGGESTED_FOR_CHARS_MAX: usize = 64;
