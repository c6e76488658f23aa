//! What the database says in the end.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use everhook_core::id::{EndpointId, Id, MessageId};
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use tokio_postgres::Client;

/// Where an open task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It waits or is held.
    Open,
    /// It stays for an operator.
    Dead,
}

/// One attempt of the log.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The message.
    pub message: String,
    /// The endpoint.
    pub endpoint: String,
    /// One life of the delivery.
    pub task: Vec<u8>,
    /// Which tenure of it.
    pub epoch: i64,
    /// How it ended.
    pub class: Class,
    /// How it left the task.
    pub end: EndState,
}

/// Everything the checker looks at.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Accepted messages and their payloads.
    pub messages: HashMap<String, Vec<u8>>,
    /// Tasks that did not leave: message, endpoint, place.
    pub tasks: Vec<(String, String, Place)>,
    /// The log.
    pub attempts: Vec<Attempt>,
}

/// How many tasks are open.
pub const OPEN_TASKS: &str = "select count(*) from task where state in (0, 1)";
const MESSAGES: &str = "select id, payload from message";
const TASKS: &str = "select subject, lane, state from task";
const ATTEMPTS: &str = "select subject, endpoint, task, epoch, class, end_state from attempt";

impl State {
    /// Reads it from PostgreSQL.
    pub async fn of_postgres(client: &Client) -> anyhow::Result<State> {
        let mut state = State::default();
        client.batch_execute("set search_path = everhook").await?;
        for row in client.query(MESSAGES, &[]).await? {
            state.push_message(row.get(0), row.get::<_, Option<Vec<u8>>>(1).unwrap_or_default())?;
        }
        for row in client.query(TASKS, &[]).await? {
            state.push_task(row.get(0), row.get(1), i64::from(row.get::<_, i16>(2)))?;
        }
        for row in client.query(ATTEMPTS, &[]).await? {
            let numbers =
                (i64::from(row.get::<_, i32>(3)), i64::from(row.get::<_, i16>(4)), i64::from(row.get::<_, i16>(5)));
            state.push_attempt(row.get(0), row.get(1), row.get(2), numbers)?;
        }
        Ok(state)
    }

    /// Reads it from an embedded store's file.
    pub fn of_sqlite(file: &Path) -> anyhow::Result<State> {
        let mut state = State::default();
        let connection = open_sqlite(file)?;
        let mut statement = connection.prepare(MESSAGES)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            state.push_message(row.get(0)?, row.get::<_, Option<Vec<u8>>>(1)?.unwrap_or_default())?;
        }
        let mut statement = connection.prepare(TASKS)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            state.push_task(row.get(0)?, row.get(1)?, row.get(2)?)?;
        }
        let mut statement = connection.prepare(ATTEMPTS)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            state.push_attempt(row.get(0)?, row.get(1)?, row.get(2)?, (row.get(3)?, row.get(4)?, row.get(5)?))?;
        }
        Ok(state)
    }

    fn push_message(&mut self, id: Vec<u8>, payload: Vec<u8>) -> anyhow::Result<()> {
        self.messages.insert(message(&id)?, payload);
        Ok(())
    }

    fn push_task(&mut self, subject: Vec<u8>, lane: Vec<u8>, state: i64) -> anyhow::Result<()> {
        let place = if state == 2 { Place::Dead } else { Place::Open };
        self.tasks.push((message(&subject)?, endpoint(&lane)?, place));
        Ok(())
    }

    fn push_attempt(
        &mut self,
        subject: Vec<u8>,
        lane: Vec<u8>,
        task: Vec<u8>,
        (epoch, class, end): (i64, i64, i64),
    ) -> anyhow::Result<()> {
        let class = Class::from_db(i16::try_from(class)?).context("an unknown class")?;
        let end = EndState::from_db(i16::try_from(end)?).context("an unknown end")?;
        self.attempts.push(Attempt {
            message: message(&subject)?,
            endpoint: endpoint(&lane)?,
            task,
            epoch,
            class,
            end,
        });
        Ok(())
    }
}

/// Open tasks of an embedded store.
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

fn endpoint(bytes: &[u8]) -> anyhow::Result<String> {
    Ok(EndpointId(id(bytes)?).to_string())
}

fn id(bytes: &[u8]) -> anyhow::Result<Id> {
    Ok(Id::from_bytes(bytes.try_into().context("an id of another length")?))
}
