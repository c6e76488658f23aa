//! What stores share: forms, keys, ids, pieces of lists; and the texts of the outbox.

mod dedup;
mod ids;
mod job_form;
mod operations;
mod outbox_schema;
mod piece;
mod resource_form;
mod schedule_form;
mod shares;
mod sql;
