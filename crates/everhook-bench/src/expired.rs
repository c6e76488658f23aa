//! Writes expired rows directly into the store, as a server would have left them long ago.
//!
//! PostgreSQL drops a whole week of messages or jobs if all of it is expired. The expiry time is therefore in the
//! middle of a week: rows that are a week older disappear with their partition, and rows that are a day older are
//! deleted in small transactions. The server must not run meanwhile.

use std::time::SystemTime;

use anyhow::Context;

use crate::fill::ID_EPOCH_SECS;
use crate::process::Place;
use crate::receiver::payload;

const DAY_SECS: u64 = 86_400;
const WEEK_SECS: u64 = 7 * DAY_SECS;
/// The shortest retention time in days, which is the default.
const KEPT_DAYS_MIN: u64 = 90;
/// The day of the week at which rows expire, counted from zero.
const MIDDLE_DAY: u64 = 3;
/// The tables that PostgreSQL partitions by week.
const WEEKLY: [&str; 4] = ["message", "attempt_delivery", "job", "attempt_job"];

/// The numbers of expired rows. Each message and job has an attempt, which is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) keys: usize,
    /// Half of the jobs are in the old week.
    pub(crate) jobs: usize,
    pub(crate) once_slots: usize,
    /// A tenth of the messages are in the old week.
    pub(crate) messages: usize,
}

/// The expiry times of one store, and the SQL dialect to write rows in.
pub(crate) struct Ages {
    now_secs: u64,
    is_postgres: bool,
    /// The retention time in days to configure on the server.
    pub(crate) kept_days: u64,
}

impl Expired {
    /// Returns the rows that were removed, given those that are left.
    pub(crate) fn without(&self, left: &Expired) -> Expired {
        Expired {
            keys: self.keys.saturating_sub(left.keys),
            jobs: self.jobs.saturating_sub(left.jobs),
            once_slots: self.once_slots.saturating_sub(left.once_slots),
            messages: self.messages.saturating_sub(left.messages),
        }
    }

    fn jobs_of_a_week(&self) -> usize {
        self.jobs / 2
    }

    pub(crate) fn messages_of_a_week(&self) -> usize {
        self.messages / 10
    }
}

impl Ages {
    pub(crate) fn of(place: &Place) -> anyhow::Result<Ages> {
        let now_secs = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let day = (now_secs - ID_EPOCH_SECS) / DAY_SECS - KEPT_DAYS_MIN;
        Ok(Ages { now_secs, is_postgres: place.url().is_some(), kept_days: KEPT_DAYS_MIN + (day + 7 - MIDDLE_DAY) % 7 })
    }

    /// Writes expired rows for the only endpoint.
    pub(crate) async fn write(&self, place: &Place, expired: &Expired) -> anyhow::Result<()> {
        eprintln!("  filling expired rows: {expired:?}");
        let (old, sliced) = (self.secs_of_a_week(), self.secs_of_slices());
        let (old_jobs, old_messages) = (expired.jobs_of_a_week(), expired.messages_of_a_week());
        let statements = [
            self.messages(old, old_messages),
            self.messages(sliced, expired.messages - old_messages),
            self.jobs(old, old_jobs),
            self.jobs(sliced, expired.jobs - old_jobs),
            [self.keys(expired.keys), self.once_slots(sliced, expired.once_slots)],
        ];
        execute(place, &[old, sliced], &statements.concat()).await
    }

    /// Writes messages that were delivered just now, each with one attempt to the only endpoint.
    pub(crate) async fn write_delivered(&self, place: &Place, count: usize) -> anyhow::Result<()> {
        eprintln!("  filling {count} delivered messages");
        execute(place, &[], &self.messages(self.now_secs - ID_EPOCH_SECS, count)).await
    }

    /// Counts the rows that are left.
    pub(crate) async fn left(&self, place: &Place) -> anyhow::Result<Expired> {
        let (schema, now_us) = (self.schema(), self.now_secs * 1_000_000);
        let counts = format!(
            "select (select count(*) from {schema}dedup where expires_at < {now_us}), \
             (select count(*) from {schema}job where queue = 'bench'), (select count(*) from {schema}once_slot), \
             (select count(*) from {schema}message where created_at < {})",
            (self.now_secs - self.kept_days * DAY_SECS) * 1_000_000
        );
        let counts: [i64; 4] = match place.client().await? {
            Some(client) => {
                let row = client.query_one(&counts, &[]).await?;
                [0, 1, 2, 3].map(|column| row.get(column))
            }
            None => {
                let read = |row: &rusqlite::Row<'_>| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]);
                rusqlite::Connection::open(place.file())?.query_row(&counts, [], read)?
            }
        };
        let [keys, jobs, once_slots, messages] = counts.map(|count| usize::try_from(count).unwrap_or(0));
        Ok(Expired { keys, jobs, once_slots, messages })
    }

    /// Returns the dropped tables of the old week; none on the embedded store.
    pub(crate) async fn dropped(&self, place: &Place) -> anyhow::Result<Vec<&'static str>> {
        let Some(client) = place.client().await? else { return Ok(Vec::new()) };
        let mut dropped = Vec::new();
        for table in ["message", "job"] {
            let name = partition(table, self.secs_of_a_week());
            let is_there: bool = client.query_one("select to_regclass($1) is not null", &[&name]).await?.get(0);
            dropped.extend((!is_there).then_some(table));
        }
        Ok(dropped)
    }

    fn messages(&self, secs: u64, count: usize) -> [String; 2] {
        let (id, at_us, payload, reply) = (self.id(secs), at_us(secs), self.blob(&payload(0)), self.blob("ok"));
        let message = self.insert(
            "message (environment, application, id, event_type, payload, created_at)",
            &format!("lane.environment, lane.application, {id}, 'bench.event', {payload}, {at_us}"),
            count,
        );
        let values = format!(
            "0, lane.environment, {id}, {id}, 1, {id}, lane.id, 0, 1, 0, 'http://127.0.0.1/0', 200, {reply}, {at_us}, 1"
        );
        [message, self.attempts("endpoint", &values, count)]
    }

    fn jobs(&self, secs: u64, count: usize) -> [String; 2] {
        // The ids are a second later than those of messages, because the attempts of both share one key.
        let (id, at_us, payload, note) = (self.id(secs + 1), at_us(secs), self.blob("{}"), self.blob(""));
        let job = self.insert(
            "job (environment, id, queue, kind, priority, created_at, payload)",
            &format!("lane.environment, {id}, 'bench', 'noop', 5, {at_us}, {payload}"),
            count,
        );
        let values = format!("1, lane.environment, {id}, {id}, 1, {id}, {id}, 0, 1, 0, '', 0, {note}, {at_us}, 1");
        [job, self.attempts("session", &values, count)]
    }

    /// Inserts one attempt for each message or job; `of` is the column of its endpoint or worker.
    fn attempts(&self, of: &str, values: &str, count: usize) -> String {
        let columns = format!(
            "attempt (kind, environment, subject, task, epoch, id, {of}, class, end_state, \"trigger\", url, status, reply, \
             started_at, duration_us)"
        );
        self.insert(&columns, values, count)
    }

    fn once_slots(&self, secs: u64, count: usize) -> String {
        let (id, at_us) = (self.id(secs), at_us(secs));
        self.insert(
            "once_slot (environment, application, key, phase, winner, winner_phase, created_at, claimed_at, updated_at)",
            &format!("lane.environment, lane.application, 'order-' || n, 1, {id}, 1, {at_us}, {at_us}, {at_us}"),
            count,
        )
    }

    /// Keys contain their own expiry time: an hour ago.
    fn keys(&self, count: usize) -> String {
        let secs = self.now_secs - ID_EPOCH_SECS - 3_600;
        let (id, at_us) = (self.id(secs), at_us(secs));
        let hash = if self.is_postgres { "decode(md5(n::text) || '00000000', 'hex')" } else { "randomblob(20)" };
        self.insert(
            "dedup (environment, scope, hash, object, body, expires_at)",
            &format!("lane.environment, 0, {hash}, {id}, {id}, {at_us}"),
            count,
        )
    }

    /// Inserts rows that differ in `n`, for the only lane of an endpoint.
    fn insert(&self, into: &str, values: &str, count: usize) -> String {
        let schema = self.schema();
        let numbers = if self.is_postgres {
            format!("generate_series(1, {count}) as n")
        } else {
            format!(
                "(with recursive up (n) as (select 1 union all select n + 1 from up where n < {count}) select n from up)"
            )
        };
        format!(
            "insert into {schema}{into} select {values} from {schema}lane cross join {numbers} where lane.queue is null"
        )
    }

    /// Returns the SQL of an id with this time, ending in `n`.
    fn id(&self, secs: u64) -> String {
        let head = format!("{secs:08x}{:016x}", 0);
        if self.is_postgres {
            format!("decode('{head}' || lpad(to_hex(n), 16, '0'), 'hex')")
        } else {
            format!("unhex('{head}' || printf('%016x', n))")
        }
    }

    fn blob(&self, text: &str) -> String {
        if self.is_postgres { format!("convert_to('{text}', 'utf8')") } else { format!("cast('{text}' as blob)") }
    }

    fn schema(&self) -> &'static str {
        if self.is_postgres { "everhook." } else { "" }
    }

    /// The time of rows that expired a day ago, in seconds of ids.
    fn secs_of_slices(&self) -> u64 {
        self.now_secs - ID_EPOCH_SECS - (self.kept_days + 1) * DAY_SECS
    }

    /// The time of rows that are a week older, in seconds of ids.
    fn secs_of_a_week(&self) -> u64 {
        self.secs_of_slices() - WEEK_SECS
    }
}

/// Executes statements that fill a store. On PostgreSQL it first creates the partitions of the weeks with these times.
async fn execute(place: &Place, weeks: &[u64], statements: &[String]) -> anyhow::Result<()> {
    let Some(client) = place.client().await? else {
        let connection = rusqlite::Connection::open(place.file())?;
        let all = statements.join(";\n");
        let all = format!("pragma synchronous = off; begin; {all}; commit; pragma wal_checkpoint(truncate)");
        return connection.execute_batch(&all).context("could not fill the embedded store");
    };
    client.batch_execute("set synchronous_commit = off").await?;
    for secs in weeks {
        client.batch_execute(&partitions(*secs)).await?;
    }
    // Brings the tables into the state of a running system. Each statement runs alone, because the last two are not
    // allowed in a transaction.
    for statement in statements.iter().map(String::as_str).chain(["vacuum analyze", "checkpoint"]) {
        client.batch_execute(statement).await?;
    }
    Ok(())
}

/// Converts the seconds of an id into microseconds.
fn at_us(secs: u64) -> u64 {
    (secs + ID_EPOCH_SECS) * 1_000_000
}

/// The name of a weekly partition.
fn partition(table: &str, secs: u64) -> String {
    format!("everhook.{table}_w{:04}", secs / WEEK_SECS)
}

/// The SQL that creates the partitions of a week.
fn partitions(secs: u64) -> String {
    let from = secs / WEEK_SECS * WEEK_SECS;
    let make = |table| {
        let (name, to) = (partition(table, secs), from + WEEK_SECS);
        format!(
            "create table {name} partition of everhook.{table} for values from ('\\x{from:08x}') to ('\\x{to:08x}');"
        )
    };
    WEEKLY.map(make).concat()
}
