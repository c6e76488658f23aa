//! Shared parts of the stores: stored forms, keys, ids, parts of lists, and the SQL of the outbox.

mod dedup;
mod ids;
mod job_form;
mod operations;
mod outbox_schema;
mod piece;
mod poll;
mod resource_form;
mod schedule_form;
mod shares;
mod sql;
