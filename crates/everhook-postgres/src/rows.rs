//! Rows to values and back. A row that cannot be read breaks a promise of the schema: it is `Corrupt`, never a panic.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::api_key::{KeyRecord, KeyScope};
use everhook_core::application::{Application, Environment};
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::event_type::EventType;
use everhook_core::id::{
    ApplicationId, AttemptId, BatchId, EndpointId, EnvironmentId, Id, KeyId, LaneId, MessageId, OrgId, SessionId,
    TaskId,
};
use everhook_core::lifecycle::EndState;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::role::Role;
use everhook_core::signing::SigningKeys;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::history::Attempt;
use everhook_store::lease::{Holding, SessionRecord};
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::Fault;

/// Reads the columns of one row from left to right.
pub(crate) struct Reader<'a> {
    row: &'a Row,
    table: &'static str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(row: &'a Row, table: &'static str) -> Reader<'a> {
        Reader::from(row, table, 0)
    }

    /// Begins at a later column.
    pub(crate) fn from(row: &'a Row, table: &'static str, at: usize) -> Reader<'a> {
        Reader { row, table, at }
    }

    pub(crate) fn get<T: FromSql<'a>>(&mut self, column: &'static str) -> Result<T, Fault> {
        let value = self.row.try_get(self.at).map_err(|_| self.corrupt(column));
        self.at += 1;
        value
    }

    pub(crate) fn id(&mut self, column: &'static str) -> Result<Id, Fault> {
        let bytes: &[u8] = self.get(column)?;
        Id::from_slice(bytes).ok_or_else(|| self.corrupt(column))
    }

    pub(crate) fn id_opt(&mut self, column: &'static str) -> Result<Option<Id>, Fault> {
        let bytes: Option<&[u8]> = self.get(column)?;
        bytes.map(|bytes| Id::from_slice(bytes).ok_or_else(|| self.corrupt(column))).transpose()
    }

    pub(crate) fn time(&mut self, column: &'static str) -> Result<Timestamp, Fault> {
        self.get(column).map(Timestamp::from_micros)
    }

    pub(crate) fn span(&mut self, column: &'static str) -> Result<Duration, Fault> {
        let micros: i64 = self.get(column)?;
        u64::try_from(micros).map(Duration::from_micros).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn unsigned<T: TryFrom<i32>>(&mut self, column: &'static str) -> Result<T, Fault> {
        let number: i32 = self.get(column)?;
        T::try_from(number).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn coded<T>(&mut self, column: &'static str, from_db: fn(i16) -> Option<T>) -> Result<T, Fault> {
        let number: i16 = self.get(column)?;
        from_db(number).ok_or_else(|| self.corrupt(column))
    }

    pub(crate) fn name(&mut self, column: &'static str) -> Result<Name, Fault> {
        let text: String = self.get(column)?;
        Name::try_from(text).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn name_opt(&mut self, column: &'static str) -> Result<Option<Name>, Fault> {
        let text: Option<String> = self.get(column)?;
        text.map(|text| Name::try_from(text).map_err(|_| self.corrupt(column))).transpose()
    }

    fn throttle_rate(&mut self) -> Result<Option<u16>, Fault> {
        let rate: Option<i32> = self.get("throttle_rate")?;
        rate.map(|rate| u16::try_from(rate).map_err(|_| self.corrupt("throttle_rate"))).transpose()
    }

    pub(crate) fn json<T: Deserialize<'a>>(&mut self, column: &'static str) -> Result<T, Fault> {
        let text: &'a str = self.get(column)?;
        serde_json::from_str(text).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn json_opt<T: Deserialize<'a>>(&mut self, column: &'static str) -> Result<Option<T>, Fault> {
        let text: Option<&'a str> = self.get(column)?;
        text.map(|text| serde_json::from_str(text).map_err(|_| self.corrupt(column))).transpose()
    }

    pub(crate) fn corrupt(&self, column: &'static str) -> Fault {
        Fault::Corrupt { table: self.table, column }
    }
}

/// Any value as the JSON text the tables keep.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("maps of strings and lists of names are always JSON")
}

/// A list of names, null if it is empty.
pub(crate) fn names(list: &[Name]) -> Option<String> {
    (!list.is_empty()).then(|| json(&list))
}

#[derive(Serialize, Deserialize)]
struct KeysText {
    current: String,
    old: Vec<(String, i64)>,
}

pub(crate) fn keys_text(keys: &SigningKeys) -> String {
    let old = keys.old.iter().map(|(key, until)| (key.expose(), until.as_micros())).collect();
    json(&KeysText { current: keys.current.expose(), old })
}

/// Reads keys that are kept as text; none if that is none of ours.
pub(crate) fn read_keys(text: &str) -> Option<SigningKeys> {
    keys(&serde_json::from_str(text).ok()?)
}

fn keys(text: &KeysText) -> Option<SigningKeys> {
    let mut old = Vec::with_capacity(text.old.len());
    for (key, until) in &text.old {
        old.push((key.parse().ok()?, Timestamp::from_micros(*until)));
    }
    Some(SigningKeys { current: text.current.parse().ok()?, old })
}

pub(crate) fn environment(row: &Row) -> Result<Environment, Fault> {
    let mut row = Reader::new(row, "environment");
    let id = EnvironmentId(row.get("id")?);
    Ok(Environment { id, org: OrgId(row.id("org")?), name: row.get("name")? })
}

pub(crate) fn scope(environment: Option<i32>) -> KeyScope {
    environment.map_or(KeyScope::Admin, |id| KeyScope::Environment(EnvironmentId(id)))
}

pub(crate) fn key(row: &Row) -> Result<KeyRecord, Fault> {
    let mut row = Reader::new(row, "api_key");
    Ok(KeyRecord {
        id: KeyId(row.id("id")?),
        scope: scope(row.get("environment")?),
        hint: row.get("hint")?,
        created_at: row.time("created_at")?,
        revoked_at: row.get::<Option<i64>>("revoked_at")?.map(Timestamp::from_micros),
    })
}

pub(crate) fn application(row: &Row) -> Result<Application, Fault> {
    let mut row = Reader::new(row, "application");
    Ok(Application {
        id: ApplicationId(row.id("id")?),
        uid: row.name_opt("uid")?,
        name: row.get("name")?,
        throttle_rate: row.throttle_rate()?,
        metadata: row.json("metadata")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        revision: row.get("revision")?,
    })
}

/// How many columns an endpoint has in every statement.
pub(crate) const ENDPOINT_COLUMNS: usize = 16;

/// Reads an endpoint whose columns begin at `at`.
pub(crate) fn endpoint(row: &Row, at: usize) -> Result<Endpoint, Fault> {
    let mut row = Reader::from(row, "endpoint", at);
    Ok(Endpoint {
        id: EndpointId(row.id("id")?),
        application: ApplicationId(row.id("application")?),
        uid: row.name_opt("uid")?,
        url: row.get("url")?,
        description: row.get("description")?,
        state: row.coded("state", EndpointState::from_db)?,
        event_types: row.json_opt("event_types")?,
        channels: row.json_opt("channels")?,
        headers: row.json::<BTreeMap<String, String>>("headers")?,
        throttle_rate: row.throttle_rate()?,
        metadata: row.json("metadata")?,
        version: row.unsigned("version")?,
        keys: {
            let text = row.json::<KeysText>("keys")?;
            keys(&text).ok_or_else(|| row.corrupt("keys"))?
        },
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        revision: row.get("revision")?,
    })
}

pub(crate) fn event_type(row: &Row) -> Result<EventType, Fault> {
    let mut row = Reader::new(row, "event_type");
    Ok(EventType {
        name: row.name("name")?,
        description: row.get("description")?,
        archived: row.get("archived")?,
        deprecated: row.get("deprecated")?,
        schemas: row.get("schemas")?,
        feature_flag: row.name_opt("feature_flag")?,
        group_name: row.get("group_name")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        revision: row.get("revision")?,
    })
}

pub(crate) fn message(row: &Row) -> Result<(EnvironmentId, Message), Fault> {
    let mut row = Reader::new(row, "message");
    let environment = EnvironmentId(row.get("environment")?);
    let application = ApplicationId(row.id("application")?);
    let message = Message {
        id: MessageId(row.id("id")?),
        application,
        event_type: row.name("event_type")?,
        event_id: row.name_opt("event_id")?,
        channels: row.json_opt("channels")?.unwrap_or_default(),
        tags: row.json_opt("tags")?.unwrap_or_default(),
        payload: row.get::<Option<&[u8]>>("payload")?.map(Bytes::copy_from_slice),
        created_at: row.time("created_at")?,
        rest: row.json_opt("rest")?.unwrap_or_default(),
    };
    Ok((environment, message))
}

/// How many columns a task has in every statement.
pub(crate) const TASK_COLUMNS: usize = 13;

pub(crate) fn task(row: &Row) -> Result<Task, Fault> {
    task_at(row, 0)
}

/// Reads a task whose columns begin at `at`.
pub(crate) fn task_at(row: &Row, at: usize) -> Result<Task, Fault> {
    let mut row = Reader::from(row, "task", at);
    let environment = EnvironmentId(row.get("environment")?);
    Ok(Task {
        key: TaskKey { environment, subject: row.id("subject")?, id: TaskId(row.id("id")?) },
        lane: LaneId(row.id("lane")?),
        kind: row.coded("kind", TaskKind::from_db)?,
        trigger: row.coded("trigger", Trigger::from_db)?,
        priority: row.get("priority")?,
        due_at: row.time("due_at")?,
        tries: row.unsigned("tries")?,
        crashes: row.unsigned("crashes")?,
        epoch: row.unsigned("epoch")?,
        cancel: row.get("cancel")?,
        batch: row.id_opt("batch")?.map(BatchId),
    })
}

/// Reads who holds a task, and since when, from column `at` on.
pub(crate) fn holding_at(row: &Row, at: usize) -> Result<Holding, Fault> {
    let mut row = Reader::from(row, "task", at);
    Ok(Holding { session: SessionId(row.id("owner")?), since: row.time("leased_at")? })
}

pub(crate) fn session(row: &Row) -> Result<SessionRecord, Fault> {
    let mut row = Reader::new(row, "session");
    Ok(SessionRecord {
        id: SessionId(row.id("id")?),
        node: row.get("node")?,
        role: row.coded("role", Role::from_db)?,
        version: row.get("version")?,
        lease: row.span("lease_us")?,
        started_at: row.time("started_at")?,
        renewed_at: row.time("lease_until")?,
        closed_at: row.get::<Option<i64>>("closed_at")?.map(Timestamp::from_micros),
        held: row.unsigned("held")?,
    })
}

pub(crate) fn attempt(row: &Row) -> Result<Attempt, Fault> {
    let mut row = Reader::new(row, "attempt");
    Ok(Attempt {
        id: AttemptId(row.id("id")?),
        message: MessageId(row.id("subject")?),
        endpoint: EndpointId(row.id("endpoint")?),
        epoch: row.unsigned("epoch")?,
        class: row.coded("class", Class::from_db)?,
        end: row.coded("end_state", EndState::from_db)?,
        trigger: row.coded("trigger", Trigger::from_db)?,
        url: row.get("url")?,
        status: row.unsigned("status")?,
        reply: Bytes::copy_from_slice(row.get("reply")?),
        started_at: row.time("started_at")?,
        duration: row.span("duration_us")?,
    })
}
