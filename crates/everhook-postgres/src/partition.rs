//! Weekly partitions of messages, jobs and their attempts, by the id of the message or job: made ahead, and on demand when one is missing.
//!
//! Weeks are counted in the seconds that ids begin with, so that every id has exactly one. A partition is made as a plain
//! table and then attached: that locks out nobody who reads or writes the others.

use everhook_core::id::{ID_BYTES, Id};
use everhook_core::time::Timestamp;

use crate::error::Fault;
use crate::migrate::SCHEMA_LOCK;
use crate::rows::Reader;
use crate::sql;
use crate::statement::{Database, Transaction, within};

const WEEK_SECS: u32 = 7 * 24 * 3600;
/// Weeks that are made ahead.
const WEEKS_AHEAD: u32 = 2;
/// How long a drop may wait for its lock, and everyone else behind it.
const LOCK_WAIT_MS: u32 = 100;
/// The partitioned tables with the column that decides.
const TABLES: [&str; 4] = ["message", "attempt", "job", "job_attempt"];

/// A week's worth of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Week(u32);

impl Week {
    pub(crate) fn of(id: &Id) -> Week {
        let [a, b, c, d, ..] = *id.as_bytes();
        Week(u32::from_be_bytes([a, b, c, d]) / WEEK_SECS)
    }

    /// This week and those that are made ahead.
    pub(crate) fn current(now: Timestamp) -> Vec<Week> {
        let Week(first) = Week::of(&Id::floor(now));
        (first..=first.saturating_add(WEEKS_AHEAD)).map(Week).collect()
    }

    /// The bytes that its ids lie between.
    pub(crate) fn ids(self) -> (Vec<u8>, Vec<u8>) {
        let edge = |week: u32| week.checked_mul(WEEK_SECS).map(|secs| secs.to_be_bytes().to_vec());
        (edge(self.0).unwrap_or_default(), edge(self.0 + 1).unwrap_or_else(|| vec![0xff; ID_BYTES + 1]))
    }

    /// The bounds of its ids, as SQL.
    fn bounds(self) -> String {
        let edge = |week: u32| week.checked_mul(WEEK_SECS).map(|secs| format!("'\\x{secs:08x}'"));
        let from = edge(self.0).expect("a week that holds an id begins before the seconds end");
        let to = edge(self.0 + 1).unwrap_or_else(|| "maxvalue".to_owned());
        format!("from ({from}) to ({to})")
    }
}

/// The oldest week that a table has a partition for.
pub(crate) async fn oldest(database: &Database, table: &str) -> Result<Option<Week>, Fault> {
    let rows = database.read(&sql::LIST_PARTITION, &[&format!("everhook.{table}")]).await?;
    let mut oldest = None;
    for row in &rows {
        let name: &str = Reader::new(row, "pg_class").get("relname")?;
        let week = name.strip_prefix(table).and_then(|rest| rest.strip_prefix("_w")).and_then(|week| week.parse().ok());
        oldest = oldest.into_iter().chain(week.map(Week)).min();
    }
    Ok(oldest)
}

/// Drops the partitions of a week, unless something is open about what is in them; says whether it did.
pub(crate) async fn drop_unused(database: &Database, tables: [&str; 2], week: Week) -> Result<bool, Fault> {
    let (low, high) = week.ids();
    let transaction = database.transaction().await?;
    transaction.begin().await?;
    // Parents first: that is the order in which everyone else takes them.
    let parents = tables.map(|table| format!("only everhook.{table}")).join(", ");
    let lock = format!("set local lock_timeout = '{LOCK_WAIT_MS}ms'; lock table {parents} in access exclusive mode");
    transaction.batch(&lock).await?;
    // Under the lock nobody can begin to work with what is in it.
    let is_used = !transaction.rows(&sql::FIND_TASK_BETWEEN, &[&low, &high]).await?.is_empty();
    if is_used {
        transaction.roll_back().await?;
        return Ok(false);
    }
    let partitions = tables.map(|table| format!("everhook.{table}_w{:04}", week.0)).join(", ");
    transaction.batch(&format!("drop table if exists {partitions}")).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Makes the partitions of these weeks that are missing.
pub(crate) async fn ensure(database: &Database, weeks: &[Week]) -> Result<(), Fault> {
    let transaction = database.transaction().await?;
    transaction.begin().await?;
    transaction.batch(&format!("select pg_advisory_xact_lock({SCHEMA_LOCK})")).await?;
    for week in weeks {
        for table in TABLES {
            ensure_one(&transaction, table, *week).await?;
        }
    }
    transaction.commit().await
}

async fn ensure_one(transaction: &Transaction, table: &str, week: Week) -> Result<(), Fault> {
    let name = format!("everhook.{table}_w{:04}", week.0);
    if transaction.exists(&name).await? {
        return Ok(());
    }
    let bounds = week.bounds();
    let make = format!(
        "create table {name} (like everhook.{table} including defaults including constraints including indexes);
        alter table everhook.{table} attach partition {name} for values {bounds}"
    );
    transaction.batch(&make).await
}

impl Transaction {
    /// Sends statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        within(self.client().batch_execute(sql)).await
    }

    async fn exists(&self, table: &str) -> Result<bool, Fault> {
        let sql = format!("select to_regclass('{table}') is not null");
        let messages = within(self.client().simple_query(&sql)).await?;
        Ok(messages.iter().any(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
            _ => false,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_one_week() {
        assert_eq!(Week::of(&Id::MIN), Week(0));
        assert_eq!(Week(0).bounds(), r"from ('\x00000000') to ('\x00093a80')");
        assert_eq!(Week::of(&Id::MAX).bounds(), r"from ('\xfffbb080') to (maxvalue)");
    }
}
