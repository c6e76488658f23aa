//! Schedules as users see them. What starts them is in `schedule::fire`.

pub(crate) mod fire;

use everhook_core::id::{EnvironmentId, ScheduleId};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::name::Name;
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Order, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::piece::Piece;
use everhook_store::schedule::{Run, ScheduleRecord, encoding};
use everhook_store::sql::rows::ScheduleRow;
use everhook_store::{fields, statement};
use tracing::warn;

use crate::catalog::name_bounds;
use crate::dedup;
use crate::error::Fault;
use crate::store::PostgresStore;

fields! {
    /// What users say of a schedule, and where it stands then.
    ScheduleFields {
        spec: String,
        starts: String,
        paused: bool,
        next: Option<Timestamp>,
        queued: Option<Timestamp>,
        look_at: Timestamp,
        now: Timestamp,
    }
}

statement! {
    CreateSchedule<'a> = "create_schedule" {
        environment: EnvironmentId, id: ScheduleId, name: &'a str, fields: ScheduleFields,
    } -> Option<ScheduleRow>;
    FindSchedule<'a> = "find_schedule" { environment: EnvironmentId, name: &'a str } -> Option<ScheduleRow>;
    // Each with the number of rows that the list had before it was cut because of its bytes.
    ListSchedule<'a> = "list_schedule" {
        environment: EnvironmentId, above: &'a str, below: &'a str, limit: usize, bytes_max: usize, order: Order,
    } -> Vec<(ScheduleRow, usize)>;
    ReplaceSchedule<'a> = "replace_schedule" {
        environment: EnvironmentId, name: &'a str, revision: i64, fields: ScheduleFields,
    } -> Option<ScheduleRow>;
    // The number of schedules that were deleted.
    DeleteSchedule<'a> = "delete_schedule" { environment: EnvironmentId, name: &'a str } -> Option<u64>;
    ListScheduleRun = "list_schedule_run" { environment: EnvironmentId, schedule: ScheduleId, limit: usize }
        -> Vec<Run>;
}

impl PostgresStore {
    pub(crate) async fn create_schedule_once(
        &self,
        environment: EnvironmentId,
        new: &ScheduleRecord,
        key: Option<&DedupKey>,
    ) -> Result<Created<ScheduleRecord>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let mut repeats = false;
        if let Some(key) = key
            && let Some(holder) = dedup::take_one(&tx, environment, key, new.schedule.id.0).await?
        {
            if holder.body != key.body {
                tx.roll_back().await?;
                return Ok(Created::KeyReused);
            }
            repeats = true;
        }
        let now = tx.now().await?;
        let (id, name, fields) = (new.schedule.id, new.name.as_str(), ScheduleFields::new(new, now));
        if let Some(row) = tx.run(CreateSchedule { environment, id, name, fields }).await? {
            let created = read(&row)?;
            tx.commit().await?;
            return Ok(Created::New(created));
        }
        let found = tx.run(FindSchedule { environment, name }).await?;
        let found = read(&found.ok_or(Fault::Contended("the name was taken and freed again"))?)?;
        tx.roll_back().await?;
        Ok(if repeats { Created::Repeated(found) } else { Created::Taken(found) })
    }

    pub(crate) async fn find_schedule_once(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<Option<ScheduleRecord>, Fault> {
        let found = self.database.read(FindSchedule { environment, name: name.as_str() }).await?;
        found.as_ref().map(read).transpose()
    }

    pub(crate) async fn list_schedules_once(
        &self,
        environment: EnvironmentId,
        slice: &Slice<Name>,
    ) -> Result<Piece<ScheduleRecord, Name>, Fault> {
        let (above, below) = name_bounds(slice);
        let (limit, bytes_max, order) = (slice.limit, PAGE_BYTES_MAX, slice.order);
        let found = self.database.read(ListSchedule { environment, above, below, limit, bytes_max, order }).await?;
        // Where the list was cut: at the name of the last row that was sent, if there were more.
        let cut = found.last().filter(|(_, listed)| found.len() < *listed);
        let next = cut.map(|(row, _)| row.name.clone());
        let readable = found.iter().filter_map(|(row, _)| match read(row) {
            Ok(record) => Some(record),
            // One that this binary cannot read is not to hide the others.
            Err(fault) => {
                warn!("a schedule is left out of the list: {fault}");
                None
            }
        });
        Ok(Piece { rows: readable.collect(), next })
    }

    pub(crate) async fn replace_schedule_once(
        &self,
        environment: EnvironmentId,
        new: &ScheduleRecord,
    ) -> Result<Replaced<ScheduleRecord>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let now = tx.now().await?;
        let (name, revision, fields) = (new.name.as_str(), new.revision, ScheduleFields::new(new, now));
        let Some(row) = tx.run(ReplaceSchedule { environment, name, revision, fields }).await? else {
            tx.roll_back().await?;
            return Ok(Replaced::Stale);
        };
        let changed = read(&row)?;
        tx.commit().await?;
        Ok(Replaced::Done(changed))
    }

    pub(crate) async fn delete_schedule_once(&self, environment: EnvironmentId, name: &Name) -> Result<bool, Fault> {
        let deleted = self.database.write(DeleteSchedule { environment, name: name.as_str() }).await?;
        Ok(deleted.is_some_and(|deleted| deleted > 0))
    }

    pub(crate) async fn list_runs_once(
        &self,
        environment: EnvironmentId,
        id: ScheduleId,
        limit: usize,
    ) -> Result<Vec<Run>, Fault> {
        self.database.read(ListScheduleRun { environment, schedule: id, limit }).await
    }
}

impl ScheduleFields {
    /// A schedule that is created or changed at `now`.
    fn new(new: &ScheduleRecord, now: Timestamp) -> ScheduleFields {
        let state = if new.paused { ScheduleState::paused() } else { ScheduleState::begin(&new.schedule, now) };
        ScheduleFields {
            spec: encoding::spec(&new.schedule),
            starts: encoding::starts(&new.starts),
            paused: new.paused,
            next: state.next,
            queued: state.queued,
            look_at: state.look_at,
            now,
        }
    }
}

fn read(row: &ScheduleRow) -> Result<ScheduleRecord, Fault> {
    row.record().map_err(|column| Fault::Corrupt { table: "schedule", column })
}
