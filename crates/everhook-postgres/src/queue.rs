//! Queues as users see them. How many jobs they give is decided in `job::gate`.

use std::time::Duration;

use everhook_core::id::EnvironmentId;
use everhook_core::limits::QUEUE_LANES_DELETED_MAX;
use everhook_core::name::Name;
use everhook_core::queue::{Queue, Rate};
use everhook_store::catalog::{Order, Replaced, Slice};
use everhook_store::queue::{QUEUE_COUNTED_MAX, QUEUE_KINDS_LOOKED_AT, QueueCount, QueueDeleted, QueueStats};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::catalog::{NAME_ABOVE, count};
use crate::error::Fault;
use crate::job::rows::queue_at;
use crate::rows::{Reader, keys_text};
use crate::sql;
use crate::statement::Params;
use crate::store::PostgresStore;

/// Lanes whose oldest jobs are looked at for statistics: those that have been ready longest.
const LANES_LOOKED_AT: usize = 100;

impl PostgresStore {
    pub(crate) async fn find_queue_once(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<Option<Queue>, Fault> {
        let found = self.database.read(&sql::FIND_QUEUE, &[&environment.0, &name.as_str()]).await?;
        let Some(row) = found.first() else { return Ok(None) };
        Ok(Some(queue_at(row, 0)?.unwrap_or_else(|| Queue::new(name.clone()))))
    }

    pub(crate) async fn list_queues_once(
        &self,
        environment: EnvironmentId,
        slice: &Slice<Name>,
    ) -> Result<Vec<Queue>, Fault> {
        let (low, high) = name_bounds(slice);
        let text = sql::directed(&sql::LIST_QUEUE, slice.order);
        let params: Params<'_> = &[&environment.0, &low, &high, &count(slice.limit)];
        let read = |row: &Row| {
            let name = Reader::new(row, "queue").name("name")?;
            Ok(queue_at(row, 1)?.unwrap_or_else(|| Queue::new(name)))
        };
        self.database.read_as(&sql::LIST_QUEUE, &text, params).await?.iter().map(read).collect()
    }

    pub(crate) async fn replace_queue_once(
        &self,
        environment: EnvironmentId,
        new: &Queue,
    ) -> Result<Replaced<Queue>, Fault> {
        let int = |limit: Option<u32>| limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX));
        let (name, state, rate) = (new.name.as_str(), new.state.to_db(), new.rate.map(Rate::to_db));
        let (limit, key_limit) = (int(new.limit), int(new.key_limit));
        let url = new.target.as_ref().map(|target| target.url.as_str());
        let keys = new.target.as_ref().map(|target| keys_text(&target.keys));
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&environment.0, &name, &state, &limit, &key_limit, &rate, &url, &keys];
        let written = if new.revision == 0 {
            self.database.write(&sql::CREATE_QUEUE, &params).await?
        } else {
            params.push(&new.revision);
            self.database.write(&sql::REPLACE_QUEUE, &params).await?
        };
        let Some(row) = written.first() else { return Ok(Replaced::Stale) };
        Ok(queue_at(row, 0)?.map_or(Replaced::Stale, Replaced::Done))
    }

    pub(crate) async fn delete_queue_once(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<QueueDeleted, Fault> {
        let mut found = false;
        loop {
            let transaction = self.database.transaction().await?;
            transaction.begin().await?;
            let max = count(QUEUE_LANES_DELETED_MAX);
            let lanes = transaction.rows(&sql::LOCK_LANE_QUEUE, &[&environment.0, &name.as_str(), &max]).await?;
            let ids: Vec<&[u8]> =
                lanes.iter().map(|row| Reader::new(row, "lane").get("id")).collect::<Result<_, _>>()?;
            let environments = vec![environment.0; ids.len()];
            // It leaves lanes alone in which a job is. Whoever adds one later finds no lane, and makes it again.
            let removed = transaction.change(&sql::PRUNE_LANE, &[&environments, &ids]).await?;
            if removed < lanes.len() as u64 {
                transaction.roll_back().await?;
                return Ok(QueueDeleted::HasJobs);
            }
            found |= removed > 0;
            let is_all = lanes.len() < QUEUE_LANES_DELETED_MAX;
            if is_all {
                found |= transaction.change(&sql::DELETE_QUEUE, &[&environment.0, &name.as_str()]).await? > 0;
            }
            transaction.commit().await?;
            if is_all {
                return Ok(if found { QueueDeleted::Done } else { QueueDeleted::NoQueue });
            }
        }
    }

    pub(crate) async fn list_targets_once(&self) -> Result<Vec<(EnvironmentId, Name)>, Fault> {
        let read = |row: &Row| {
            let mut row = Reader::new(row, "queue");
            Ok((EnvironmentId(row.get("environment")?), row.name("name")?))
        };
        self.database.read(&sql::LIST_QUEUE_TARGET, &[]).await?.iter().map(read).collect()
    }

    pub(crate) async fn queue_stats_once(&self, environment: EnvironmentId, name: &Name) -> Result<QueueStats, Fault> {
        let (name, lanes) = (name.as_str(), count(LANES_LOOKED_AT));
        let params: Params<'_> = &[&environment.0, &name, &count(QUEUE_COUNTED_MAX), &lanes];
        let rows = self.database.read(&sql::COUNT_QUEUE, params).await?;
        let row = rows.first().ok_or(Fault::Contended("the count gave no answer"))?;
        let mut row = Reader::new(row, "queue");
        let mut number = |column| row.get::<i64>(column).map(i64::unsigned_abs);
        let (pending, due) = (number("pending")?, number("due")?);
        let (running, dead) = (number("running")?, number("dead")?);
        let oldest_due: Option<i64> = row.get("oldest")?;
        let ended_last_minute = row.get::<i64>("ended")?.unsigned_abs();
        let params: Params<'_> = &[&environment.0, &name, &lanes, &count(QUEUE_KINDS_LOOKED_AT)];
        let kinds = self.database.read(&sql::LIST_QUEUE_KIND, params).await?;
        Ok(QueueStats {
            pending,
            due,
            running,
            dead,
            oldest_due: oldest_due.map(|span| Duration::from_micros(span.max(0).unsigned_abs())),
            ended_last_minute,
            due_kinds: kinds.iter().map(|row| Reader::new(row, "job").name("kind")).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) async fn count_ended_once(&self, counts: &[QueueCount]) -> Result<(), Fault> {
        if counts.is_empty() {
            return Ok(());
        }
        let environments: Vec<i32> = counts.iter().map(|count| count.environment.0).collect();
        let names: Vec<&str> = counts.iter().map(|count| count.name.as_str()).collect();
        let ended: Vec<i64> = counts.iter().map(|count| i64::try_from(count.ended).unwrap_or(i64::MAX)).collect();
        self.database.change(&sql::ADD_QUEUE_MINUTE, &[&environments, &names, &ended]).await.map(drop)
    }
}

/// The names between which a piece of a list lies.
pub(crate) fn name_bounds(slice: &Slice<Name>) -> (&str, &str) {
    let after = slice.after.as_ref().map(Name::as_str);
    match slice.order {
        Order::Ascending => (after.unwrap_or(""), NAME_ABOVE),
        Order::Descending => ("", after.unwrap_or(NAME_ABOVE)),
    }
}
