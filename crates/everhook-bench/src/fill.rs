//! Writes backlogs directly into the store, because filling ten million rows through the API would take longer than the
//! measurement.
//!
//! A backlog contains a number of messages for every endpoint of an application. The store holds the same rows after
//! accepting them while no node delivers. The server must not run meanwhile.

use std::time::{Duration, SystemTime};

use anyhow::Context;
use rusqlite::params;

use crate::process::Place;
use crate::receiver::payload;

/// The start of the seconds in ids.
pub(crate) const ID_EPOCH_SECS: u64 = 1_400_000_000;
/// The encoding of a pending delivery with the default priority, which both stores share.
const PRIORITY: i16 = 5;
/// Rows that one statement writes to PostgreSQL.
const CHUNK_ROWS: usize = 100_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog<'a> {
    /// The uid of the application, which already has endpoints.
    pub(crate) application: &'a str,
    /// Messages for each endpoint.
    pub(crate) messages: usize,
    /// Tasks per message and endpoint, as after this many resends. The copies have no payload of their own: the
    /// measurement is about the number of rows.
    pub(crate) copies: usize,
    pub(crate) due: Due,
}

/// The time at which the backlog is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// An hour ago.
    Now,
    /// An hour ago, but the lanes are held for this long, so that a server can start meanwhile.
    Held(Duration),
    Tomorrow,
}

impl Backlog<'_> {
    pub(crate) async fn write(&self, place: &Place) -> anyhow::Result<()> {
        let Backlog { application, messages, copies, due } = self;
        eprintln!("  filling {messages} messages, each {copies} times for each endpoint of {application}, due {due:?}");
        match place.client().await? {
            Some(client) => self.write_postgres(&client).await,
            None => self.write_sqlite(place).context("could not fill the embedded store"),
        }
    }

    async fn write_postgres(&self, client: &tokio_postgres::Client) -> anyhow::Result<()> {
        let (now_secs, due_at) = self.times()?;
        let lanes = "select lane.environment, lane.application, lane.id from everhook.lane join everhook.resource \
            on resource.environment = lane.environment and resource.kind = 0 and resource.parent = '' \
            and resource.id = lane.application and resource.name = $1 order by lane.id";
        let lanes = client.query(lanes, &[&self.application]).await?;
        let first = lanes.first().context("the application has endpoints")?;
        let (environment, application): (i32, Vec<u8>) = (first.get(0), first.get(1));
        let lanes: Vec<Vec<u8>> = lanes.iter().map(|row| row.get(2)).collect();
        let message = client
            .prepare(
                "insert into everhook.message (created_at, environment, application, id, event_type, payload) \
                 select $1, $2, $3, id, 'bench.event', convert_to(payload, 'utf8') from unnest($4::bytea[], $5::text[]) \
                 as message (id, payload)",
            )
            .await?;
        let task = client
            .prepare(
                "insert into everhook.task (due_at, environment, tries, crashes, epoch, kind, \"trigger\", priority, state, \
                 cancel, subject, id, lane) \
                 select $1 + message.at, $2, 0, 0, 0, 0, 0, $3, 0, false, message.id, \
                 substr(message.id, 1, 12) || int8send((message.at * $4::int8 + lane.at) * $8::int8 + copy.at), lane.id \
                 from unnest($5::bytea[], $6::int8[]) as message (id, at) \
                 cross join generate_series(0, $8::int8 - 1) as copy (at) \
                 cross join unnest($7::bytea[]) with ordinality as lane (id, at)",
            )
            .await?;
        let (count, copies) = (i64::try_from(lanes.len())?, i64::try_from(self.copies)?);
        client.batch_execute("set synchronous_commit = off").await?;
        let chunk_messages = (CHUNK_ROWS / (self.copies * lanes.len())).max(1);
        for chunk in (0..self.messages).collect::<Vec<_>>().chunks(chunk_messages) {
            let ids: Vec<Vec<u8>> = chunk.iter().map(|number| id(now_secs, &application, *number).to_vec()).collect();
            let payloads: Vec<String> = chunk.iter().map(|number| payload(*number)).collect();
            let numbers: Vec<i64> = chunk.iter().map(|number| *number as i64).collect();
            client.execute(&message, &[&due_at, &environment, &application, &ids, &payloads]).await?;
            client.execute(&task, &[&due_at, &environment, &PRIORITY, &count, &ids, &numbers, &lanes, &copies]).await?;
        }
        // Brings the tables into the state of a running system. Each statement runs alone, because none of them is
        // allowed in a transaction.
        for statement in ["vacuum analyze everhook.task", "vacuum analyze everhook.lane", "checkpoint"] {
            client.batch_execute(statement).await?;
        }
        let lane = "update everhook.lane set next_due = $1, floor = least(floor, $1), hold_until = $4, waiting = $5 where environment = $2 and application = $3";
        let waiting = self.due != Due::Tomorrow;
        client.execute(lane, &[&due_at, &environment, &application, &self.hold_until()?, &waiting]).await?;
        Ok(())
    }

    fn write_sqlite(&self, place: &Place) -> anyhow::Result<()> {
        let (now_secs, due_at) = self.times()?;
        let mut connection = rusqlite::Connection::open(place.file())?;
        connection.execute_batch("pragma synchronous = off; pragma cache_size = -400000")?;
        let transaction = connection.transaction()?;
        let lanes = "select lane.environment, lane.application, lane.id from lane join resource \
            on resource.environment = lane.environment and resource.kind = 0 and resource.parent = x'' \
            and resource.id = lane.application and resource.name = ?1 order by lane.id";
        let lanes = transaction
            .prepare(lanes)?
            .query_map([self.application], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<Result<Vec<(i64, Vec<u8>, Vec<u8>)>, _>>()?;
        let (environment, application, _) = lanes.first().context("the application has endpoints")?;
        {
            let mut message = transaction.prepare(
                "insert into message (environment, application, id, event_type, payload, created_at) \
                 values (?1, ?2, ?3, 'bench.event', ?4, ?5)",
            )?;
            let mut task = transaction.prepare(
                "insert into task (environment, subject, id, lane, kind, \"trigger\", priority, due_at, tries, crashes, \
                 epoch, cancel, state) values (?1, ?2, ?3, ?4, 0, 0, ?5, ?6, 0, 0, 0, 0, 0)",
            )?;
            for number in 0..self.messages {
                let subject = id(now_secs, application, number);
                message.execute(params![environment, application, subject, payload(number).as_bytes(), due_at])?;
                let due_at = due_at + number as i64;
                for (at, (_, _, lane)) in lanes.iter().enumerate() {
                    for copy in 0..self.copies {
                        let task_id = id(now_secs, application, (number * lanes.len() + at) * self.copies + copy);
                        task.execute(params![environment, subject, task_id, lane, PRIORITY, due_at])?;
                    }
                }
            }
        }
        let lane =
            "update lane set next_due = ?1, hold_until = ?4, waiting = ?5 where environment = ?2 and application = ?3";
        let waiting = self.due != Due::Tomorrow;
        transaction.execute(lane, params![due_at, environment, application, self.hold_until()?, waiting])?;
        transaction.commit()?;
        connection.execute_batch("pragma wal_checkpoint(truncate)")?;
        // Without this, the disk would still be writing during the measurement.
        std::fs::File::open(place.file())?.sync_all()?;
        Ok(())
    }

    /// Returns the time until which the lanes are held, in microseconds.
    fn hold_until(&self) -> anyhow::Result<i64> {
        let Due::Held(span) = self.due else { return Ok(0) };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        Ok(i64::try_from((now + span).as_micros())?)
    }

    /// Returns the seconds for ids, and the due time of the first row in microseconds.
    fn times(&self) -> anyhow::Result<(u32, i64)> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let due = match self.due {
            Due::Now | Due::Held(_) => now - Duration::from_secs(3600),
            Due::Tomorrow => now + Duration::from_secs(86_400),
        };
        Ok((u32::try_from(now.as_secs() - ID_EPOCH_SECS)?, i64::try_from(due.as_micros())?))
    }
}

/// Returns an id with the current time and a part of the application's id, ending in a number.
fn id(now_secs: u32, application: &[u8], number: usize) -> [u8; 20] {
    let mut id = [0; 20];
    id[..4].copy_from_slice(&now_secs.to_be_bytes());
    // The random part of an application's id is at its end.
    for (to, from) in id[4..12].iter_mut().zip(application.iter().rev()) {
        *to = *from;
    }
    id[12..].copy_from_slice(&(number as u64).to_be_bytes());
    id
}

/// Counts the open tasks in a store whose server is stopped.
pub(crate) async fn open_tasks(place: &Place) -> anyhow::Result<usize> {
    let count: i64 = match place.client().await? {
        Some(client) => client.query_one("select count(*) from everhook.task", &[]).await?.get(0),
        None => {
            rusqlite::Connection::open(place.file())?.query_row("select count(*) from task", [], |row| row.get(0))?
        }
    };
    Ok(usize::try_from(count)?)
}
