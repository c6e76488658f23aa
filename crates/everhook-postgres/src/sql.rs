//! Every statement with the types of its parameters, so that it can be sent prepared or, behind a pooler, in one go.
//!
//! Two rules keep plans what they were when they were tested, whatever the statistics say of tables that fill and empty
//! within a minute. Batches are joined by `any (array[batch.environment])` where `=` would do: that leaves one way to join,
//! a look-up by key for each row of the batch. And connections are opened without sequential scans, hash and merge joins
//! (see `connection`): no statement of the store is better off with them.

use everhook_store::catalog::Order;
use tokio_postgres::types::Type;

/// A statement and the types of its parameters.
pub(crate) struct Sql {
    pub(crate) text: &'static str,
    pub(crate) types: &'static [Type],
}

macro_rules! files {
    ($($name:ident = $file:literal ($($param:ident),* $(,)?);)*) => {$(
        pub(crate) static $name: Sql =
            Sql { text: include_str!(concat!("../queries/", $file, ".sql")), types: &[$(Type::$param),*] };
    )*};
}

macro_rules! lines {
    ($($name:ident = $text:literal ($($param:ident),* $(,)?);)*) => {$(
        pub(crate) static $name: Sql = Sql { text: $text, types: &[$(Type::$param),*] };
    )*};
}

files! {
    APPEND_DIRECT = "append_direct" (
        INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY,
        INT4_ARRAY, BYTEA_ARRAY,
        INT4_ARRAY, INT2_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT8_ARRAY,
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY,
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT2_ARRAY, INT2_ARRAY, INT2_ARRAY, INT4_ARRAY, BYTEA_ARRAY,
        INT2_ARRAY
    );
    APPEND_DEDUP = "append_dedup" (INT4_ARRAY, INT2_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT8_ARRAY);
    FIND_DEDUP = "find_dedup" (INT4_ARRAY, INT2_ARRAY, BYTEA_ARRAY);
    DELETE_DEDUP = "delete_dedup" (INT4_ARRAY, INT2_ARRAY, BYTEA_ARRAY);
    APPEND_PAYLOAD_EXPIRY = "append_payload_expiry" (INT8_ARRAY, INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY);
    APPEND_MESSAGE = "append_message" (
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8,
        TEXT_ARRAY
    );
    APPEND_TASK = "append_task" (
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT2_ARRAY, INT2_ARRAY, INT2_ARRAY, INT8_ARRAY, INT4_ARRAY,
        BYTEA_ARRAY, INT2_ARRAY
    );
    TOUCH_LANE = "touch_lane" (INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY, BOOL_ARRAY);
    FIND_LANE = "find_lane" (INT4_ARRAY, BYTEA_ARRAY);
    FIND_APPLICATION_REVISION = "find_application_revision" (INT4_ARRAY, BYTEA_ARRAY);
    LIST_ENDPOINT_APPLICATION = "list_endpoint_application" (INT4_ARRAY, BYTEA_ARRAY);

    NEXT_LANE = "next_lane" (BYTEA_ARRAY, INT8);
    LEASE_TASK = "lease_task" (INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT2, INT8, BYTEA);
    NEXT_DUE = "next_due" (INT4_ARRAY, BYTEA_ARRAY, INT2, INT8);
    DRAIN_LANE = "drain_lane" (INT4_ARRAY, BYTEA_ARRAY);
    REFILL_LANE = "refill_lane" (INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT2);

    SETTLE_TASK_GONE = "settle_task_gone" (
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT2_ARRAY, INT2_ARRAY,
        INT2_ARRAY, TEXT_ARRAY, INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY
    );
    SETTLE_TASK_PENDING = "settle_task_pending" (
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT2_ARRAY, INT2_ARRAY,
        INT2_ARRAY, TEXT_ARRAY, INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT2_ARRAY, INT4_ARRAY, INT4_ARRAY,
        INT8_ARRAY
    );
    FIND_ATTEMPT_SETTLED = "find_attempt_settled" (INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT4_ARRAY, BYTEA_ARRAY);
    HOLD_LANE = "hold_lane" (INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY);
    DISABLE_ENDPOINT = "disable_endpoint" (INT4_ARRAY, BYTEA_ARRAY);
    RECLAIM_TASK = "reclaim_task" (BYTEA, INT8);

    CREATE_LANE_QUEUE = "create_lane_queue" (INT4_ARRAY, BYTEA_ARRAY, TEXT_ARRAY);
    TOUCH_LANE_QUEUE = "touch_lane_queue" (INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY);
    APPEND_JOB = "append_job" (
        INT4_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT2_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        BYTEA_ARRAY, TEXT_ARRAY, INT8
    );
    APPEND_TASK_JOB = "append_task_job" (
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT2_ARRAY, INT8_ARRAY, INT8_ARRAY, INT4_ARRAY, BYTEA_ARRAY
    );
    NEXT_QUEUE = "next_queue" (INT4_ARRAY, TEXT_ARRAY);
    LOCK_QUEUE = "lock_queue" (INT4_ARRAY, TEXT_ARRAY);
    COUNT_GATE = "count_gate" (BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT8_ARRAY);
    NEXT_LANE_QUEUE = "next_lane_queue" (INT4_ARRAY, TEXT_ARRAY, INT8, BOOL);
    NEXT_READY_QUEUE = "next_ready_queue" (INT4_ARRAY, TEXT_ARRAY, BYTEA_ARRAY);
    LEASE_JOB = "lease_job" (
        INT4_ARRAY, INT8_ARRAY, INT4_ARRAY, BYTEA_ARRAY, INT4_ARRAY, INT8_ARRAY, BYTEA_ARRAY, INT8, INT8, BYTEA, BOOL
    );
    LEASE_JOB_KIND = "lease_job_kind" (
        INT4_ARRAY, INT8_ARRAY, INT4_ARRAY, BYTEA_ARRAY, INT4_ARRAY, INT8_ARRAY, BYTEA_ARRAY, INT8, INT8, BYTEA, BOOL,
        INT8, INT4_ARRAY
    );
    FIND_JOB_LEASED = "find_job_leased" (INT4_ARRAY, BYTEA_ARRAY);
    PUT_BACK_JOB = "put_back_job" (INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY);
    REFILL_LANE_QUEUE = "refill_lane_queue" (INT4_ARRAY, BYTEA_ARRAY);
    SETTLE_JOB_GONE = "settle_job_gone" (
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT2_ARRAY, INT2_ARRAY,
        INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY
    );
    SETTLE_JOB_PENDING = "settle_job_pending" (
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT2_ARRAY, INT2_ARRAY,
        INT4_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT2_ARRAY, INT4_ARRAY, INT4_ARRAY, INT8_ARRAY
    );
    FIND_JOB_ATTEMPT_SETTLED = "find_job_attempt_settled" (
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT4_ARRAY, BYTEA_ARRAY
    );
    PUT_JOB_RESULT = "put_job_result" (INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT4_ARRAY);
    STOP_QUEUE = "stop_queue" (INT4_ARRAY, BYTEA_ARRAY);
    FIND_JOB = "find_job" (INT4, BYTEA);
    LIST_JOB = "list_job" (INT4, BYTEA, BYTEA, TEXT, TEXT, TEXT, BYTEA, INT8, INT8, BYTEA, INT2, INT8);
    LIST_JOB_BATCH = "list_job_batch" (INT4, BYTEA, BYTEA, TEXT, TEXT, TEXT, BYTEA, INT8, INT8, BYTEA, INT2, INT8);
    LIST_JOB_OPEN = "list_job_open" (INT4, BYTEA, BYTEA, TEXT, TEXT, TEXT, BYTEA, INT8, INT8, BYTEA, INT2, INT8);
    LIST_JOB_DEAD = "list_job_dead" (INT4, BYTEA, BYTEA, TEXT, TEXT, TEXT, BYTEA, INT8, INT8, BYTEA, INT2, INT8);
    SCAN_JOB = "scan_job" (INT4, BYTEA, BYTEA, INT8);
    SCAN_JOB_BATCH = "scan_job_batch" (INT4, BYTEA, BYTEA, BYTEA, INT8);
    SCAN_JOB_DEAD = "scan_job_dead" (INT4, BYTEA, BYTEA, INT8);
    SCAN_TASK = "scan_task" (INT4, BYTEA, BYTEA, INT8);
    LIST_JOB_ATTEMPT = "list_job_attempt" (INT4, BYTEA, INT8);
    RECLAIM_JOB = "reclaim_job" (BYTEA, INT8);
    LOCK_BATCH = "lock_batch" (INT4_ARRAY, BYTEA_ARRAY);
    REPLACE_BATCH = "replace_batch" (
        INT4_ARRAY, BYTEA_ARRAY, INT2_ARRAY, INT4_ARRAY, INT2_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY,
        INT4_ARRAY
    );
    CREATE_BATCH = "create_batch" (INT4, BYTEA, BYTEA, TEXT, TEXT, TEXT, INT2, INT4);
    FIND_BATCH = "find_batch" (INT4, BYTEA);
    LIST_BATCH = "list_batch" (INT4, BYTEA, BYTEA, INT8);
    LIST_JOB_FAILED = "list_job_failed" (INT4, BYTEA, INT8);
    LOCK_TASK_JOB = "lock_task_job" (INT4_ARRAY, BYTEA_ARRAY);
    FIND_JOB_END = "find_job_end" (INT4_ARRAY, BYTEA_ARRAY);
    END_JOB = "end_job" (INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA, INT2, INT2, INT8);
    MOVE_TASK_JOB = "move_task_job" (INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT8_ARRAY, BOOL_ARRAY);
    ERASE_JOB = "erase_job" (INT4, BYTEA_ARRAY);
    PUT_JOB_PROGRESS = "put_job_progress" (INT4, BYTEA, BYTEA, INT4, INT2, TEXT);
    LIST_TASK_HELD = "list_task_held" (BYTEA);

    FIND_QUEUE = "find_queue" (INT4, TEXT);
    LIST_QUEUE = "list_queue" (INT4, TEXT, TEXT, INT8);
    CREATE_QUEUE = "create_queue" (INT4, TEXT, INT2, INT4, INT4, INT8, TEXT, TEXT);
    REPLACE_QUEUE = "replace_queue" (INT4, TEXT, INT2, INT4, INT4, INT8, TEXT, TEXT, INT8);
    DELETE_QUEUE = "delete_queue" (INT4, TEXT);
    LOCK_LANE_QUEUE = "lock_lane_queue" (INT4, TEXT, INT8);
    LIST_QUEUE_TARGET = "list_queue_target" ();
    COUNT_QUEUE = "count_queue" (INT4, TEXT, INT8, INT8);
    LIST_QUEUE_KIND = "list_queue_kind" (INT4, TEXT, INT8, INT8);
    ADD_QUEUE_MINUTE = "add_queue_minute" (INT4_ARRAY, TEXT_ARRAY, INT8_ARRAY);
    PUT_WORKER = "put_worker" (INT4, BYTEA, TEXT, TEXT);
    FIND_WORKER = "find_worker" (INT4, BYTEA);
    LIST_WORKER = "list_worker" (INT4, INT8);

    CREATE_SCHEDULE = "create_schedule" (INT4, BYTEA, TEXT, TEXT, TEXT, BOOL, INT8, INT8, INT8, INT8);
    FIND_SCHEDULE = "find_schedule" (INT4, TEXT);
    LOCK_SCHEDULE = "lock_schedule" (INT4, TEXT);
    LIST_SCHEDULE = "list_schedule" (INT4, TEXT, TEXT, INT8, INT8);
    REPLACE_SCHEDULE = "replace_schedule" (INT4, TEXT, INT8, TEXT, TEXT, BOOL, INT8, INT8, INT8, INT8);
    DELETE_SCHEDULE = "delete_schedule" (INT4, TEXT);
    NEXT_SCHEDULE = "next_schedule" (INT8, INT8);
    FIND_TASK_OPEN = "find_task_open" (INT4_ARRAY, BYTEA_ARRAY);
    MOVE_SCHEDULE = "move_schedule" (INT4_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, BYTEA_ARRAY);
    APPEND_SCHEDULE_RUN = "append_schedule_run" (
        INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT2_ARRAY, BYTEA_ARRAY, INT8
    );
    LIST_SCHEDULE_RUN = "list_schedule_run" (INT4, BYTEA, INT8);

    PRUNE_MESSAGE = "prune_message" (BYTEA, INT8);
    PRUNE_TASK_DEAD = "prune_task_dead" (INT8, INT8);
    PRUNE_PAYLOAD = "prune_payload" (INT8, INT8);
    PRUNE_DEDUP = "prune_dedup" (TEXT, TEXT);
    PRUNE_JOB = "prune_job" (BYTEA, INT8, INT8);
    PRUNE_ONCE = "prune_once" (INT8, INT8);
    PRUNE_SESSION = "prune_session" (INT8, INT8);
    LIST_OLD_LANE = "list_old_lane" (INT8);
    LOCK_LANE_IDLE = "lock_lane_idle" (INT4_ARRAY, BYTEA_ARRAY);
    PRUNE_LANE = "prune_lane" (INT4_ARRAY, BYTEA_ARRAY);
    PRUNE_BATCH = "prune_batch" (INT8, INT2, INT8);
    PRUNE_SCHEDULE_RUN = "prune_schedule_run" (INT8, INT8, INT8);
    FIND_TASK_BETWEEN = "find_task_between" (BYTEA, BYTEA);

    COUNT_BACKLOG = "count_backlog" (INT8, INT8, INT2);

    OPEN_SESSION = "open_session" (BYTEA, TEXT, INT2, TEXT, INT8);
    LIST_SESSION = "list_session" (INT8, INT8);
    RENEW_SESSION = "renew_session" (BYTEA);
    CLOSE_SESSION = "close_session" (BYTEA);
    NEXT_EXPIRED_SESSION = "next_expired_session" (INT8);
    CLOSE_EXPIRED_SESSION = "close_expired_session" (BYTEA_ARRAY);

    CREATE_ENVIRONMENT = "create_environment" (BYTEA, TEXT);
    FIND_ENVIRONMENT = "find_environment" (BYTEA);
    LIST_ENVIRONMENT = "list_environment" ();
    CREATE_KEY = "create_key" (BYTEA, BYTEA, TEXT, INT4);
    FIND_KEY = "find_key" (BYTEA);
    LIST_KEY = "list_key" ();
    DELETE_KEY = "delete_key" (BYTEA);
    CREATE_APPLICATION = "create_application" (INT4, BYTEA, TEXT, TEXT, INT4, TEXT);
    FIND_APPLICATION = "find_application" (INT4, BYTEA);
    FIND_APPLICATION_UID = "find_application_uid" (INT4, TEXT);
    LIST_APPLICATION = "list_application" (INT4, BYTEA, BYTEA, INT8, INT2);
    REPLACE_APPLICATION = "replace_application" (INT4, BYTEA, INT8, TEXT, TEXT, INT4, TEXT);
    TOUCH_APPLICATION = "touch_application" (INT4, BYTEA);
    DELETE_APPLICATION = "delete_application" (INT4, BYTEA);
    CREATE_ENDPOINT = "create_endpoint" (
        INT4, BYTEA, BYTEA, TEXT, TEXT, TEXT, INT2, TEXT, TEXT, TEXT, INT4, TEXT, INT4, TEXT
    );
    COUNT_ENDPOINT = "count_endpoint" (INT4, BYTEA, INT8);
    CREATE_LANE = "create_lane" (INT4, BYTEA, BYTEA, INT2);
    FIND_ENDPOINT = "find_endpoint" (INT4, BYTEA, BYTEA);
    FIND_ENDPOINT_UID = "find_endpoint_uid" (INT4, BYTEA, TEXT);
    LIST_ENDPOINT = "list_endpoint" (INT4, BYTEA, BYTEA, BYTEA, INT8);
    REPLACE_ENDPOINT = "replace_endpoint" (
        INT4, BYTEA, BYTEA, INT8, TEXT, TEXT, TEXT, INT2, TEXT, TEXT, TEXT, INT4, TEXT, INT4, TEXT
    );
    SET_LANE_STATE = "set_lane_state" (INT4, BYTEA, INT2);
    DELETE_ENDPOINT = "delete_endpoint" (INT4, BYTEA, BYTEA);
    CREATE_EVENT_TYPE = "create_event_type" (INT4, TEXT, TEXT, BOOL, BOOL, TEXT, TEXT, TEXT);
    FIND_EVENT_TYPE = "find_event_type" (INT4, TEXT);
    LIST_EVENT_TYPE = "list_event_type" (INT4, TEXT, TEXT, BOOL, INT8, INT8);
    REPLACE_EVENT_TYPE = "replace_event_type" (INT4, TEXT, INT8, TEXT, BOOL, BOOL, TEXT, TEXT, TEXT);
    DELETE_EVENT_TYPE = "delete_event_type" (INT4, TEXT);

    FIND_MESSAGE = "find_message" (INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY);
    LIST_MESSAGE = "list_message" (INT4, BYTEA, BYTEA, BYTEA, INT8, INT8, TEXT, TEXT, TEXT_ARRAY, INT8, INT8);
    SCAN_MESSAGE = "scan_message" (INT4, BYTEA, BYTEA, BYTEA, INT8);
    SCAN_ATTEMPT = "scan_attempt" (INT4, BYTEA, BYTEA, BYTEA, INT8);
    EXPUNGE_MESSAGE = "expunge_message" (INT4, BYTEA, BYTEA);
    LIST_ATTEMPT_ENDPOINT = "list_attempt_endpoint" (
        INT4, BYTEA, BYTEA, BYTEA, BOOL, INT4, INT4, INT8, INT8, TEXT, TEXT, TEXT_ARRAY, BYTEA, INT8
    );
    LIST_ATTEMPT_MESSAGE = "list_attempt_message" (
        INT4, BYTEA, BYTEA, BYTEA, BOOL, INT4, INT4, INT8, INT8, TEXT, TEXT, TEXT_ARRAY, BYTEA, INT8, BYTEA
    );
    FIND_ATTEMPT = "find_attempt" (INT4, BYTEA, BYTEA);
    EXPUNGE_ATTEMPT = "expunge_attempt" (INT4, BYTEA, BYTEA);
    LIST_DESTINATION = "list_destination" (INT4, BYTEA, BYTEA);
    LIST_OUTBOX = "list_outbox" (INT8, INT8, INT8);
    SET_ASIDE_OUTBOX = "set_aside_outbox" (INT8_ARRAY, TEXT_ARRAY);
    FIND_OUTBOX_STATUS = "find_outbox_status" (INT8);
    LIST_OUTBOX_ASIDE = "list_outbox_aside" (INT8, INT8, INT8);
    REPLACE_OUTBOX_ASIDE = "replace_outbox_aside" (INT8, TEXT, TEXT, TEXT, TEXT, TEXT);
    RETRY_OUTBOX_ASIDE = "retry_outbox_aside" (INT8_ARRAY);
    REDRIVE_TASK = "redrive_task" (INT4, BYTEA, BYTEA, BYTEA, BYTEA, INT8, INT8);

    APPEND_ONCE = "append_once" (INT4_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, INT8_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8);
    CLAIM_ONCE = "claim_once" (INT4_ARRAY, BYTEA_ARRAY, TEXT_ARRAY);
    REPLACE_ONCE = "replace_once" (INT4_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, INT8_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8);
    APPEND_ONCE_SUPPRESSION = "append_once_suppression" (
        INT4_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8
    );
    FIND_ONCE = "find_once" (INT4, BYTEA, TEXT);
    LIST_ONCE = "list_once" (INT4, BYTEA, TEXT, TEXT, INT8);
}

lines! {
    NOW = "select everhook.now_us()" ();
    TIMELINE = "select substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)" ();
    NEXT_READY = "select ready_at - everhook.now_us() from everhook.lane \
        where ready_at < 9223372036854775807 and id <> all ($1) order by ready_at limit 1" (BYTEA_ARRAY);
    ROTATE_LANE = "update everhook.lane set next_due = $3, floor_of = $3, \
        floor = case lane.floor_of when lane.next_due then least(lane.floor, $3) else 0 end \
        from unnest($1::int[], $2::bytea[]) as used (environment, id) \
        where lane.environment = any (array[used.environment]) and lane.id = used.id and lane.next_due < $3" (INT4_ARRAY, BYTEA_ARRAY, INT8);
    LOCK_LANE = "select from unnest($1::int[], $2::bytea[]) as wanted (environment, id) \
        join everhook.lane on lane.environment = any (array[wanted.environment]) and lane.id = wanted.id \
        order by wanted.environment, wanted.id for key share of lane" (INT4_ARRAY, BYTEA_ARRAY);
    CALM_LANE = "update everhook.lane set waiting = false from unnest($1::int[], $2::bytea[]) as used (environment, id) \
        where lane.environment = any (array[used.environment]) and lane.id = used.id" (INT4_ARRAY, BYTEA_ARRAY);
    DEFER_LANE = "update everhook.lane set next_due = greatest(next_due, $3) \
        from unnest($1::int[], $2::bytea[]) as used (environment, id) \
        where lane.environment = any (array[used.environment]) and lane.id = used.id" (INT4_ARRAY, BYTEA_ARRAY, INT8);
    BOOK_QUEUE = "update everhook.queue set booked_until = used.until \
        from unnest($1::int[], $2::text[], $3::bigint[]) as used (environment, name, until) \
        where queue.environment = any (array[used.environment]) and queue.name = used.name" (INT4_ARRAY, TEXT_ARRAY, INT8_ARRAY);
    FLAG_TASK = "update everhook.task set cancel = true \
        from unnest($1::int[], $2::bytea[], $3::bytea[]) as flagged (environment, subject, id) \
        where task.environment = any (array[flagged.environment]) and task.subject = flagged.subject \
        and task.id = flagged.id" (INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY);
    NEXT_LOOK = "select look_at from everhook.schedule where look_at < 9223372036854775807 order by look_at limit 1" ();
    PAGES_DEDUP = "select pg_catalog.pg_relation_size('everhook.dedup') \
        / pg_catalog.current_setting('block_size')::bigint" ();
    PRUNE_QUEUE_MINUTE = "delete from everhook.queue_minute where ctid = any (array( \
        select ctid from everhook.queue_minute where minute < everhook.now_us() / 60000000 - $1 limit $2))" (INT8, INT8);
    PRUNE_JOB_OUTPUT = "delete from everhook.job_output where job >= $1 and job < $2" (BYTEA, BYTEA);
    FIND_JOB_ATTEMPT_SINCE = "select 1 from everhook.job_attempt \
        where job >= $1 and job < $2 and started_at + duration_us >= $3 limit 1" (BYTEA, BYTEA, INT8);
    LIST_PARTITION = "select relation.relname::text from pg_catalog.pg_inherits as child \
        join pg_catalog.pg_class as relation on relation.oid = child.inhrelid \
        where child.inhparent = pg_catalog.to_regclass($1)" (TEXT);
    ANY_OUTBOX = "select from everhook.outbox limit 1" ();
    LOCK_OUTBOX = "select uuid_send(identity), floor from everhook.outbox_relay for no key update skip locked" ();
    RAISE_OUTBOX = "update everhook.outbox_relay set floor = greatest(floor, $1)" (BYTEA);
    DELETE_OUTBOX = "delete from everhook.outbox where id = any ($1)" (INT8_ARRAY);
    DELETE_OUTBOX_ASIDE = "delete from everhook.outbox_aside where id = any ($1)" (INT8_ARRAY);
    KNOWN_EVENT_TYPE = "select name from everhook.event_type \
        where environment = $1 and name = any ($2) and not archived" (INT4, TEXT_ARRAY);
}

/// A list's statement in the wanted direction; the files are written in ascending order.
pub(crate) fn directed(sql: &Sql, order: Order) -> String {
    match order {
        Order::Ascending => sql.text.to_owned(),
        Order::Descending => sql.text.replace(" asc\n", " desc\n"),
    }
}
