//! Schedules as users see them. What starts them is in `schedule::fire`.

mod fire;

use everhook_core::id::{EnvironmentId, Id, ScheduleId};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::name::Name;
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::piece::Piece;
use everhook_store::schedule::{Run, RunKind, ScheduleRecord, form};
use tokio_postgres::Row;
use tracing::warn;

use crate::catalog::count;
use crate::error::Fault;
use crate::job::rows::now;
use crate::keys;
use crate::queue::name_bounds;
use crate::rows::Reader;
use crate::sql;
use crate::statement::Params;
use crate::store::PostgresStore;

/// How many columns of a row a schedule takes.
const SCHEDULE_COLUMNS: usize = 13;

impl PostgresStore {
    pub(crate) async fn create_schedule_once(
        &self,
        environment: EnvironmentId,
        new: &ScheduleRecord,
        key: Option<&DedupKey>,
    ) -> Result<Created<ScheduleRecord>, Fault> {
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let mut repeats = false;
        if let Some(key) = key
            && let Some(holder) = keys::take_one(&transaction, environment, key, new.schedule.id.0).await?
        {
            if holder.body != key.body {
                transaction.roll_back().await?;
                return Ok(Created::KeyReused);
            }
            repeats = true;
        }
        let now = now(&transaction.rows(&sql::NOW, &[]).await?)?;
        let state = begun(new, now);
        let columns = StateColumns::new(&state);
        let (id, name) = (new.schedule.id.as_bytes().as_slice(), new.name.as_str());
        let (spec, starts, now) = (form::spec(&new.schedule), form::starts(&new.starts), now.as_micros());
        let StateColumns { next, queued, look_at } = &columns;
        let params: Params<'_> =
            &[&environment.0, &id, &name, &spec, &starts, &new.paused, next, queued, look_at, &now];
        if let Some(row) = transaction.rows(&sql::CREATE_SCHEDULE, params).await?.first() {
            let created = read(row)?;
            transaction.commit().await?;
            return Ok(Created::New(created));
        }
        let found = transaction.rows(&sql::FIND_SCHEDULE, &[&environment.0, &name]).await?;
        let row = found.first().ok_or(Fault::Contended("the name was taken and freed again"))?;
        let found = read(row)?;
        transaction.roll_back().await?;
        Ok(if repeats { Created::Repeated(found) } else { Created::Taken(found) })
    }

    pub(crate) async fn find_schedule_once(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<Option<ScheduleRecord>, Fault> {
        let found = self.database.read(&sql::FIND_SCHEDULE, &[&environment.0, &name.as_str()]).await?;
        found.first().map(read).transpose()
    }

    pub(crate) async fn list_schedules_once(
        &self,
        environment: EnvironmentId,
        slice: &Slice<Name>,
    ) -> Result<Piece<ScheduleRecord, Name>, Fault> {
        let (low, high) = name_bounds(slice);
        let text = sql::directed(&sql::LIST_SCHEDULE, slice.order);
        let params: Params<'_> = &[&environment.0, &low, &high, &count(slice.limit), &count(PAGE_BYTES_MAX)];
        let found = self.database.read_as(&sql::LIST_SCHEDULE, &text, params).await?;
        let readable = found.iter().filter_map(|row| match read(row) {
            // One that this binary cannot read is not to hide the others.
            Err(fault @ Fault::Corrupt { .. }) => {
                warn!("a schedule is left out of the list: {fault}");
                None
            }
            read => Some(read),
        });
        let rows = readable.collect::<Result<Vec<_>, Fault>>()?;
        let next = found.last().map(|last| cut(last, found.len())).transpose()?.flatten();
        Ok(Piece { rows, next })
    }

    pub(crate) async fn replace_schedule_once(
        &self,
        environment: EnvironmentId,
        new: &ScheduleRecord,
    ) -> Result<Replaced<ScheduleRecord>, Fault> {
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let now = now(&transaction.rows(&sql::NOW, &[]).await?)?;
        let columns = StateColumns::new(&begun(new, now));
        let (spec, starts, now) = (form::spec(&new.schedule), form::starts(&new.starts), now.as_micros());
        let StateColumns { next, queued, look_at } = &columns;
        let name = new.name.as_str();
        let params: Params<'_> =
            &[&environment.0, &name, &new.revision, &spec, &starts, &new.paused, next, queued, look_at, &now];
        let changed = transaction.rows(&sql::REPLACE_SCHEDULE, params).await?;
        let Some(row) = changed.first() else {
            transaction.roll_back().await?;
            return Ok(Replaced::Stale);
        };
        let changed = read(row)?;
        transaction.commit().await?;
        Ok(Replaced::Done(changed))
    }

    pub(crate) async fn delete_schedule_once(&self, environment: EnvironmentId, name: &Name) -> Result<bool, Fault> {
        let rows = self.database.write(&sql::DELETE_SCHEDULE, &[&environment.0, &name.as_str()]).await?;
        let deleted: i64 = rows.first().map_or(Ok(0), |row| Reader::new(row, "schedule").get("count"))?;
        Ok(deleted > 0)
    }

    pub(crate) async fn list_runs_once(
        &self,
        environment: EnvironmentId,
        id: ScheduleId,
        limit: usize,
    ) -> Result<Vec<Run>, Fault> {
        let params: Params<'_> = &[&environment.0, &id.as_bytes().as_slice(), &count(limit)];
        let read = |row: &Row| {
            let mut row = Reader::new(row, "schedule_run");
            Ok(Run {
                nominal: row.time("nominal")?,
                at: row.time("at")?,
                kind: row.coded("kind", RunKind::from_db)?,
                object: row.id_opt("object")?,
            })
        };
        self.database.read(&sql::LIST_SCHEDULE_RUN, params).await?.iter().map(read).collect()
    }
}

/// Where a schedule stands that is created or changed at `now`.
fn begun(new: &ScheduleRecord, now: Timestamp) -> ScheduleState {
    if new.paused { ScheduleState::paused() } else { ScheduleState::begin(&new.schedule, now) }
}

/// A state as columns.
struct StateColumns {
    next: Option<i64>,
    queued: Option<i64>,
    look_at: i64,
}

impl StateColumns {
    fn new(state: &ScheduleState) -> StateColumns {
        StateColumns {
            next: state.next.map(Timestamp::as_micros),
            queued: state.queued.map(Timestamp::as_micros),
            look_at: state.look_at.as_micros(),
        }
    }
}

/// What a row says besides what it starts and when: enough to put one off that cannot be read.
struct Head {
    environment: EnvironmentId,
    id: ScheduleId,
    name: Name,
    last_job: Option<Id>,
}

fn head(row: &Row) -> Result<Head, Fault> {
    /// Where the last column stands.
    const LAST_JOB: usize = 12;
    let last_job = Reader::from(row, "schedule", LAST_JOB).id_opt("last_job")?;
    let mut row = Reader::new(row, "schedule");
    let environment = EnvironmentId(row.get("environment")?);
    Ok(Head { environment, id: ScheduleId(row.id("id")?), name: row.name("name")?, last_job })
}

/// Where a list was cut because of its bytes: at the name of the last row that was sent, if there were more.
fn cut(last: &Row, sent: usize) -> Result<Option<Name>, Fault> {
    let listed: i64 = Reader::from(last, "schedule", SCHEDULE_COLUMNS).get("listed_rows")?;
    Ok((count(sent) < listed).then_some(head(last)?.name))
}

fn read(row: &Row) -> Result<ScheduleRecord, Fault> {
    let Head { id, name, .. } = head(row)?;
    let mut row = Reader::from(row, "schedule", 3);
    let optional = |at: Option<i64>| at.map(Timestamp::from_micros);
    Ok(ScheduleRecord {
        name,
        schedule: form::read_spec(id, row.get("spec")?).ok_or_else(|| row.corrupt("spec"))?,
        starts: form::read_starts(row.get("starts")?).ok_or_else(|| row.corrupt("starts"))?,
        paused: row.get("paused")?,
        state: ScheduleState {
            next: optional(row.get("next")?),
            queued: optional(row.get("queued")?),
            look_at: row.time("look_at")?,
        },
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        revision: row.get("revision")?,
    })
}
