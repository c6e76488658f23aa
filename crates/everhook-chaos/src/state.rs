//! The state of the database at the end of a run.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use everhook_core::id::{BatchId, EndpointId, Id, JobId, MessageId};
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use tokio_postgres::Client;

/// The state of a task row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Pending or leased.
    Open,
    /// Dead, waiting for an operator.
    Dead,
}

/// An entry of the attempt log.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The id of the message or job.
    pub subject: String,
    pub endpoint: String,
    /// The task, which identifies one life of the delivery.
    pub task: Vec<u8>,
    /// The epoch of the lease.
    pub epoch: i64,
    /// The class of the outcome.
    pub class: Class,
    /// The state of the task after the attempt.
    pub end: EndState,
}

/// The rows of one kind of work.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Accepted messages or jobs by id, with their payloads.
    pub accepted: HashMap<String, Vec<u8>>,
    /// Remaining tasks: message or job, endpoint, state.
    pub tasks: Vec<(String, String, Place)>,
    pub attempts: Vec<Attempt>,
}

#[derive(Clone, Debug)]
pub struct Batch {
    pub id: String,
    /// Whether the batch takes no more jobs.
    pub sealed: bool,
    /// The number of pending and running jobs, according to the batch.
    pub pending: i64,
    /// The number of dead jobs, according to the batch.
    pub dead: i64,
    pub jobs: Vec<String>,
}

/// All rows that the checker reads.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub messages: Part,
    /// Jobs; their endpoint is `TARGET`.
    pub jobs: Part,
    pub batches: Vec<Batch>,
}

/// The name that stands for the endpoint of pushed jobs.
pub const TARGET: &str = "target";

/// Counts the open tasks.
pub const OPEN_TASKS: &str = "select count(*) from task where state in (0, 1)";
const MESSAGES: &str = "select id, payload from message";
// Environment 0 contains the servers' own jobs.
const JOBS: &str = "select id, payload, batch from job where environment > 0";
const TASKS: &str = "select kind, subject, lane, state from task where environment > 0";
const ATTEMPTS: &str = "select subject, endpoint, task, epoch, class, end_state from attempt where kind = 0";
const JOB_ATTEMPTS: &str =
    "select subject, subject, task, epoch, class, end_state from attempt where kind = 1 and environment > 0";
const BATCHES: &str = "select id, intake, pending, dead from batch";

impl State {
    /// Reads the state from PostgreSQL.
    pub async fn of_postgres(client: &Client) -> anyhow::Result<State> {
        let mut state = State::default();
        client.batch_execute("set search_path = everhook").await?;
        for row in client.query(BATCHES, &[]).await? {
            let numbers =
                (i64::from(row.get::<_, i16>(1)), i64::from(row.get::<_, i32>(2)), row.get::<_, i32>(3).into());
            state.push_batch(row.get(0), numbers)?;
        }
        for row in client.query(MESSAGES, &[]).await? {
            state.push_message(row.get(0), row.get(1))?;
        }
        for row in client.query(JOBS, &[]).await? {
            state.push_job(row.get(0), row.get(1), row.get(2))?;
        }
        for row in client.query(TASKS, &[]).await? {
            let numbers = (i64::from(row.get::<_, i16>(0)), i64::from(row.get::<_, i16>(3)));
            state.push_task(row.get(1), row.get(2), numbers)?;
        }
        for (sql, is_job) in [(ATTEMPTS, false), (JOB_ATTEMPTS, true)] {
            for row in client.query(sql, &[]).await? {
                let numbers =
                    (i64::from(row.get::<_, i32>(3)), i64::from(row.get::<_, i16>(4)), i64::from(row.get::<_, i16>(5)));
                state.push_attempt(is_job, row.get(0), row.get(1), row.get(2), numbers)?;
            }
        }
        Ok(state)
    }

    /// Reads the state from the file of an embedded store.
    pub fn of_sqlite(file: &Path) -> anyhow::Result<State> {
        let mut state = State::default();
        let connection = open_sqlite(file)?;
        let each = |sql: &str, push: &mut dyn FnMut(&rusqlite::Row<'_>) -> anyhow::Result<()>| {
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                push(row)?;
            }
            anyhow::Ok(())
        };
        each(BATCHES, &mut |row| state.push_batch(row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?)))?;
        each(MESSAGES, &mut |row| state.push_message(row.get(0)?, row.get(1)?))?;
        each(JOBS, &mut |row| state.push_job(row.get(0)?, row.get(1)?, row.get(2)?))?;
        each(TASKS, &mut |row| state.push_task(row.get(1)?, row.get(2)?, (row.get(0)?, row.get(3)?)))?;
        for (sql, is_job) in [(ATTEMPTS, false), (JOB_ATTEMPTS, true)] {
            each(sql, &mut |row| {
                let numbers = (row.get(3)?, row.get(4)?, row.get(5)?);
                state.push_attempt(is_job, row.get(0)?, row.get(1)?, row.get(2)?, numbers)
            })?;
        }
        Ok(state)
    }

    fn push_batch(&mut self, id: Vec<u8>, (intake, pending, dead): (i64, i64, i64)) -> anyhow::Result<()> {
        let id = BatchId(self::id(&id)?).to_string();
        self.batches.push(Batch { id, sealed: intake == 1, pending, dead, jobs: Vec::new() });
        Ok(())
    }

    fn push_message(&mut self, id: Vec<u8>, payload: Option<Vec<u8>>) -> anyhow::Result<()> {
        self.messages.accepted.insert(message(&id)?, payload.unwrap_or_default());
        Ok(())
    }

    fn push_job(&mut self, id: Vec<u8>, payload: Option<Vec<u8>>, batch: Option<Vec<u8>>) -> anyhow::Result<()> {
        let id = job(&id)?;
        if let Some(batch) = batch {
            let batch = BatchId(self::id(&batch)?).to_string();
            let known = self.batches.iter_mut().find(|known| known.id == batch);
            known.context("a job refers to a batch that is not stored")?.jobs.push(id.clone());
        }
        self.jobs.accepted.insert(id, payload.unwrap_or_default());
        Ok(())
    }

    fn push_task(&mut self, subject: Vec<u8>, lane: Vec<u8>, (kind, state): (i64, i64)) -> anyhow::Result<()> {
        let place = if state == 2 { Place::Dead } else { Place::Open };
        match kind {
            0 => self.messages.tasks.push((message(&subject)?, endpoint(&lane)?, place)),
            _ => self.jobs.tasks.push((job(&subject)?, TARGET.to_owned(), place)),
        }
        Ok(())
    }

    fn push_attempt(
        &mut self,
        is_job: bool,
        subject: Vec<u8>,
        lane: Vec<u8>,
        task: Vec<u8>,
        (epoch, class, end): (i64, i64, i64),
    ) -> anyhow::Result<()> {
        let class = Class::from_db(i16::try_from(class)?).context("unknown class of an attempt")?;
        let end = EndState::from_db(i16::try_from(end)?).context("unknown end of an attempt")?;
        let (part, subject, endpoint) = match is_job {
            false => (&mut self.messages, message(&subject)?, endpoint(&lane)?),
            true => (&mut self.jobs, job(&subject)?, TARGET.to_owned()),
        };
        part.attempts.push(Attempt { subject, endpoint, task, epoch, class, end });
        Ok(())
    }
}

/// Counts the open tasks of an embedded store.
pub fn open_tasks_of_sqlite(file: &Path) -> anyhow::Result<i64> {
    Ok(open_sqlite(file)?.query_row(OPEN_TASKS, [], |row| row.get(0))?)
}

fn open_sqlite(file: &Path) -> anyhow::Result<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(file).with_context(|| format!("could not open {}", file.display()))?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(connection)
}

fn message(bytes: &[u8]) -> anyhow::Result<String> {
    Ok(MessageId(id(bytes)?).to_string())
}

fn job(bytes: &[u8]) -> anyhow::Result<String> {
    Ok(JobId(id(bytes)?).to_string())
}

fn endpoint(bytes: &[u8]) -> anyhow::Result<String> {
    Ok(EndpointId(id(bytes)?).to_string())
}

fn id(bytes: &[u8]) -> anyhow::Result<Id> {
    Ok(Id::from_bytes(bytes.try_into().context("an id has the wrong length")?))
}
