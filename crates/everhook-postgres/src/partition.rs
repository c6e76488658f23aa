//! Weekly partitions of messages, jobs and their attempts, by the id of the message or job.
//!
//! They are created ahead, and on demand if one is missing. Weeks are counted from the seconds at the start of an id,
//! so that every id belongs to one week. Functions of the schema create and drop them with the rights of its owner
//! (`migrations/0002_history.sql`), so that the service's role needs no right to change the schema.

use everhook_core::id::{ID_BYTES, Id};
use everhook_core::time::Timestamp;
use everhook_store::statement;

use crate::error::Fault;
use crate::tx::Database;

statement! {
    // Returns a row if a task is open for a message or job with an id in this range.
    pub(crate) FindOrphanedTask<'a> = "find_orphaned_task" { low: &'a [u8], high: &'a [u8] } -> Option<i32>;
    ListPartition = (
        "list_partition",
        "select relation.relname::text from pg_catalog.pg_inherits as child \
        join pg_catalog.pg_class as relation on relation.oid = child.inhrelid \
        where child.inhparent = pg_catalog.to_regclass(:parent)"
    ) { parent: String } -> Vec<String>;
}

pub(crate) const WEEK_SECS: u32 = 7 * 24 * 3600;
/// Weeks that are created ahead.
const WEEKS_AHEAD: u32 = 2;
/// The most time that a drop waits for its lock. All other transactions wait behind it.
const LOCK_WAIT_MS: u32 = 100;

/// The ids of one week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Week(u32);

impl Week {
    pub(crate) fn of(id: &Id) -> Week {
        let [a, b, c, d, ..] = *id.as_bytes();
        Week(u32::from_be_bytes([a, b, c, d]) / WEEK_SECS)
    }

    /// Reads the week at the end of a partition's name.
    pub(crate) fn of_partition(name: &str) -> Option<Week> {
        name.rsplit_once("_w").and_then(|(_, week)| week.parse().ok()).map(Week)
    }

    /// The first time after this week.
    pub(crate) fn end(self) -> Timestamp {
        let mut edge = [0; ID_BYTES];
        edge[..4].copy_from_slice(&(self.0 + 1).saturating_mul(WEEK_SECS).to_be_bytes());
        Id::from_bytes(edge).timestamp()
    }

    /// Returns this week and the weeks that are created ahead.
    pub(crate) fn current(now: Timestamp) -> Vec<Week> {
        let Week(first) = Week::of(&Id::floor(now));
        (first..=first.saturating_add(WEEKS_AHEAD)).map(Week).collect()
    }

    /// Returns the bounds of its ids: inclusive, exclusive.
    pub(crate) fn ids(self) -> (Vec<u8>, Vec<u8>) {
        let edge = |week: u32| week.checked_mul(WEEK_SECS).map(|secs| secs.to_be_bytes().to_vec());
        (edge(self.0).unwrap_or_default(), edge(self.0 + 1).unwrap_or_else(|| vec![0xff; ID_BYTES + 1]))
    }
}

/// Finds the oldest week with a partition of a table.
pub(crate) async fn oldest(database: &Database, table: &str) -> Result<Option<Week>, Fault> {
    let mut oldest = None;
    for name in database.read(ListPartition { parent: format!("everhook.{table}") }).await? {
        let week = name.strip_prefix(table).and_then(|rest| rest.strip_prefix("_w")).and_then(|week| week.parse().ok());
        oldest = oldest.into_iter().chain(week.map(Week)).min();
    }
    Ok(oldest)
}

/// Drops the partitions of a week, unless a task is open for one of its rows; returns whether it did.
pub(crate) async fn drop_unused(database: &Database, tables: [&str; 2], week: Week) -> Result<bool, Fault> {
    let (low, high) = week.ids();
    let tx = database.tx().await?;
    tx.begin(()).await?;
    // Parents are locked in the order in which all other transactions lock them, to avoid deadlocks.
    let parents = tables.map(|table| format!("only everhook.{table}")).join(", ");
    let lock = format!("set local lock_timeout = '{LOCK_WAIT_MS}ms'; lock table {parents} in access exclusive mode");
    tx.run_text(&lock).await?;
    // Checked again under the lock: no transaction can now add a task for a row of this week.
    let is_used = tx.run(FindOrphanedTask { low: &low, high: &high }).await?.is_some();
    if is_used {
        tx.roll_back().await?;
        return Ok(false);
    }
    let drops = tables.map(|table| format!("select everhook.drop_week('{table}', {})", week.0)).join("; ");
    tx.run_text(&drops).await?;
    tx.commit().await?;
    Ok(true)
}

/// Creates the missing partitions of these weeks.
pub(crate) async fn ensure(database: &Database, weeks: &[Week]) -> Result<(), Fault> {
    let tx = database.tx().await?;
    tx.begin(()).await?;
    let makes =
        weeks.iter().map(|week| format!("select everhook.make_week({})", week.0)).collect::<Vec<_>>().join("; ");
    tx.run_text(&makes).await?;
    tx.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_one_week() {
        assert_eq!(Week::of(&Id::MIN), Week(0));
        assert_eq!(Week(0).ids(), (vec![0, 0, 0, 0], vec![0x00, 0x09, 0x3a, 0x80]));
        assert_eq!(Week::of(&Id::MAX).ids(), (vec![0xff, 0xfb, 0xb0, 0x80], vec![0xff; ID_BYTES + 1]));
    }
}
