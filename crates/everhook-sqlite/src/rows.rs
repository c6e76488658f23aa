//! Rows to values and back. What breaks a promise of the schema is named, never guessed at.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::application::{Application, Environment};
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, BatchId, EndpointId, EnvironmentId, Id, LaneId, MessageId, OrgId, TaskId};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::signing::SigningKeys;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Fault;

/// Sorts before every id.
pub(crate) const BELOW_IDS: &[u8] = &[];
/// Sorts after every id.
pub(crate) const ABOVE_IDS: &[u8] = &[0xff; everhook_core::id::ID_BYTES + 1];

/// A row of a table, to be read by position; the column's name is for the error.
pub(crate) struct Record<'r> {
    row: &'r Row<'r>,
    table: &'static str,
}

impl<'r> Record<'r> {
    pub(crate) fn new(row: &'r Row<'r>, table: &'static str) -> Record<'r> {
        Record { row, table }
    }

    pub(crate) fn corrupt(&self, column: &'static str) -> Fault {
        Fault::Corrupt { table: self.table, column }
    }

    pub(crate) fn get<T: FromSql>(&self, index: usize, column: &'static str) -> Result<T, Fault> {
        self.row.get(index).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn id(&self, index: usize, column: &'static str) -> Result<Id, Fault> {
        let value = self.row.get_ref(index)?;
        value.as_blob().ok().and_then(Id::from_slice).ok_or_else(|| self.corrupt(column))
    }

    pub(crate) fn optional_id(&self, index: usize, column: &'static str) -> Result<Option<Id>, Fault> {
        if self.is_null(index)? { Ok(None) } else { self.id(index, column).map(Some) }
    }

    pub(crate) fn optional_time(&self, index: usize, column: &'static str) -> Result<Option<Timestamp>, Fault> {
        Ok(self.get::<Option<i64>>(index, column)?.map(Timestamp::from_micros))
    }

    pub(crate) fn environment(&self, index: usize) -> Result<EnvironmentId, Fault> {
        self.get(index, "environment").map(EnvironmentId)
    }

    pub(crate) fn time(&self, index: usize, column: &'static str) -> Result<Timestamp, Fault> {
        self.get(index, column).map(Timestamp::from_micros)
    }

    pub(crate) fn duration(&self, index: usize, column: &'static str) -> Result<Duration, Fault> {
        let micros: i64 = self.get(index, column)?;
        u64::try_from(micros).map(Duration::from_micros).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn bytes(&self, index: usize, column: &'static str) -> Result<Option<Bytes>, Fault> {
        match self.row.get_ref(index)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(Bytes::copy_from_slice(bytes))),
            _ => Err(self.corrupt(column)),
        }
    }

    pub(crate) fn is_null(&self, index: usize) -> Result<bool, Fault> {
        Ok(self.row.get_ref(index)? == ValueRef::Null)
    }

    pub(crate) fn name(&self, index: usize, column: &'static str) -> Result<Name, Fault> {
        self.optional_name(index, column)?.ok_or_else(|| self.corrupt(column))
    }

    pub(crate) fn optional_name(&self, index: usize, column: &'static str) -> Result<Option<Name>, Fault> {
        let text: Option<String> = self.get(index, column)?;
        text.map(Name::try_from).transpose().map_err(|_| self.corrupt(column))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, index: usize, column: &'static str) -> Result<Option<T>, Fault> {
        match self.row.get_ref(index)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(text) => serde_json::from_slice(text).map(Some).map_err(|_| self.corrupt(column)),
            _ => Err(self.corrupt(column)),
        }
    }

    /// A number that stands for a variant.
    pub(crate) fn variant<T>(
        &self,
        index: usize,
        column: &'static str,
        from_db: impl FnOnce(i16) -> Option<T>,
    ) -> Result<T, Fault> {
        from_db(self.get(index, column)?).ok_or_else(|| self.corrupt(column))
    }
}

/// A value as JSON text. What the core's types hold can always be written as such.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::Sql(rusqlite::Error::ToSqlConversionFailure(Box::new(error))))
}

/// Names as a JSON array; nothing where there are none.
pub(crate) fn names_to_json(names: &[Name]) -> Result<Option<String>, Fault> {
    if names.is_empty() { Ok(None) } else { to_json(names).map(Some) }
}

/// Reads `select id, org, name from environment`.
pub(crate) fn environment(row: &Row<'_>) -> Result<Environment, Fault> {
    let record = Record::new(row, "environment");
    let (org, name) = (OrgId(record.id(1, "org")?), record.get(2, "name")?);
    Ok(Environment { id: record.environment(0)?, org, name })
}

/// Reads the columns of an application.
pub(crate) fn application(row: &Row<'_>) -> Result<Application, Fault> {
    let record = Record::new(row, "application");
    Ok(Application {
        id: ApplicationId(record.id(0, "id")?),
        uid: record.optional_name(1, "uid")?,
        name: record.get(2, "name")?,
        throttle_rate: record.get(3, "throttle_rate")?,
        metadata: record.json(4, "metadata")?.unwrap_or_default(),
        created_at: record.time(5, "created_at")?,
        updated_at: record.time(6, "updated_at")?,
        revision: record.get(7, "revision")?,
    })
}

/// How many columns [`endpoint`] reads; what follows is the query's own.
pub(crate) const ENDPOINT_COLUMNS: usize = 16;

/// Reads the columns of an endpoint.
pub(crate) fn endpoint(row: &Row<'_>) -> Result<Endpoint, Fault> {
    let record = Record::new(row, "endpoint");
    Ok(Endpoint {
        application: ApplicationId(record.id(0, "application")?),
        id: EndpointId(record.id(1, "id")?),
        uid: record.optional_name(2, "uid")?,
        url: record.get(3, "url")?,
        description: record.get(4, "description")?,
        state: record.variant(5, "state", EndpointState::from_db)?,
        event_types: record.json(6, "event_types")?,
        channels: record.json(7, "channels")?,
        headers: record.json(8, "headers")?.unwrap_or_default(),
        throttle_rate: record.get(9, "throttle_rate")?,
        metadata: record.json(10, "metadata")?.unwrap_or_default(),
        version: record.get(11, "version")?,
        keys: signing_keys(&record, 12)?,
        created_at: record.time(13, "created_at")?,
        updated_at: record.time(14, "updated_at")?,
        revision: record.get(15, "revision")?,
    })
}

/// How the keys of an endpoint are kept.
#[derive(serde::Serialize, serde::Deserialize)]
struct KeptKeys {
    current: String,
    old: Vec<(String, i64)>,
}

/// Reads the keys that requests are signed with.
pub(crate) fn signing_keys(record: &Record<'_>, index: usize) -> Result<SigningKeys, Fault> {
    let corrupt = || record.corrupt("keys");
    let kept: KeptKeys = record.json(index, "keys")?.ok_or_else(corrupt)?;
    let mut keys = SigningKeys::new(kept.current.parse().map_err(|_| corrupt())?);
    for (key, until) in kept.old {
        keys.old.push((key.parse().map_err(|_| corrupt())?, Timestamp::from_micros(until)));
    }
    Ok(keys)
}

/// The keys of an endpoint as JSON text.
pub(crate) fn signing_keys_to_json(keys: &SigningKeys) -> Result<String, Fault> {
    let old = keys.old.iter().map(|(key, until)| (key.expose(), until.as_micros())).collect();
    to_json(&KeptKeys { current: keys.current.expose(), old })
}

/// Reads the columns of an event type.
pub(crate) fn event_type(row: &Row<'_>) -> Result<EventType, Fault> {
    let record = Record::new(row, "event_type");
    Ok(EventType {
        name: record.name(0, "name")?,
        description: record.get(1, "description")?,
        archived: record.get(2, "archived")?,
        deprecated: record.get(3, "deprecated")?,
        schemas: record.get(4, "schemas")?,
        feature_flag: record.optional_name(5, "feature_flag")?,
        group_name: record.get(6, "group_name")?,
        created_at: record.time(7, "created_at")?,
        updated_at: record.time(8, "updated_at")?,
        revision: record.get(9, "revision")?,
    })
}

/// Reads the columns of a message of `application`.
pub(crate) fn message(row: &Row<'_>, application: ApplicationId) -> Result<Message, Fault> {
    let record = Record::new(row, "message");
    Ok(Message {
        id: MessageId(record.id(0, "id")?),
        application,
        event_type: record.name(1, "event_type")?,
        event_id: record.optional_name(2, "event_id")?,
        channels: record.json(3, "channels")?.unwrap_or_default(),
        tags: record.json(4, "tags")?.unwrap_or_default(),
        payload: record.bytes(5, "payload")?,
        created_at: record.time(6, "created_at")?,
        rest: record.json(7, "rest")?.unwrap_or_default(),
    })
}

/// How many columns [`task`] reads.
pub(crate) const TASK_COLUMNS: usize = 13;

/// Reads the columns of a task, from column `first` on.
pub(crate) fn task(row: &Row<'_>, first: usize) -> Result<Task, Fault> {
    let record = Record::new(row, "task");
    let key = TaskKey {
        environment: record.environment(first)?,
        subject: record.id(first + 1, "subject")?,
        id: TaskId(record.id(first + 2, "id")?),
    };
    Ok(Task {
        key,
        lane: LaneId(record.id(first + 3, "lane")?),
        kind: record.variant(first + 4, "kind", TaskKind::from_db)?,
        trigger: record.variant(first + 5, "trigger", Trigger::from_db)?,
        priority: record.get(first + 6, "priority")?,
        due_at: record.time(first + 7, "due_at")?,
        tries: record.get(first + 8, "tries")?,
        crashes: record.get(first + 9, "crashes")?,
        epoch: record.get(first + 10, "epoch")?,
        cancel: record.get(first + 11, "cancel")?,
        batch: record.optional_id(first + 12, "batch")?.map(BatchId),
    })
}
