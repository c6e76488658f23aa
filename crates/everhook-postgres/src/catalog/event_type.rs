//! Event types.

use everhook_core::event_type::EventType;
use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::name::Name;
use everhook_store::catalog::{ArchivedTypes, Created, Order, Replaced, Slice, event_type_bytes};
use everhook_store::dedup::DedupKey;
use everhook_store::piece::Piece;
use everhook_store::{fields, statement};

use super::{LOOKS_MAX, name_bounds};
use crate::dedup;
use crate::error::Fault;
use crate::store::PostgresStore;

fields! {
    /// The fields of an event type that users set.
    EventTypeFields<'a> {
        description: &'a str,
        archived: bool,
        deprecated: bool,
        schemas: Option<&'a str>,
        feature_flag: Option<&'a str>,
        group_name: Option<&'a str>,
    }
}

statement! {
    CreateEventType<'a> = "create_event_type" {
        environment: EnvironmentId, name: &'a str, fields: EventTypeFields<'a>,
    } -> Option<EventType>;
    FindEventType<'a> = "find_event_type" { environment: EnvironmentId, name: &'a str } -> Option<EventType>;
    ListEventType<'a> = "list_event_type" {
        environment: EnvironmentId, above: &'a str, below: &'a str, archived: bool, limit: usize, bytes_max: usize,
        order: Order,
    } -> Vec<EventType>;
    ReplaceEventType<'a> = "replace_event_type" {
        environment: EnvironmentId, name: &'a str, revision: i64, fields: EventTypeFields<'a>,
    } -> Option<EventType>;
    DeleteEventType<'a> = "delete_event_type" { environment: EnvironmentId, name: &'a str };
    KnownEventType<'a> = (
        "known_event_type",
        "select name from everhook.event_type \
        where environment = :environment and name = any (:names) and not archived"
    ) { environment: EnvironmentId, names: Vec<&'a str> } -> Vec<Name>;
}

impl PostgresStore {
    pub(crate) async fn create_event_type_once(
        &self,
        environment: EnvironmentId,
        new: &EventType,
        key: Option<&DedupKey>,
    ) -> Result<Created<EventType>, Fault> {
        let name = new.name.as_str();
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let mut repeats = false;
        // Event types have no id: the key stands for the name in the request that came with it.
        if let Some(key) = key
            && let Some(holder) = dedup::take_one(&tx, environment, key, Id::MIN).await?
        {
            if holder.body != key.body {
                tx.roll_back().await?;
                return Ok(Created::KeyReused);
            }
            repeats = true;
        }
        for _ in 0..LOOKS_MAX {
            if let Some(found) = tx.run(FindEventType { environment, name }).await? {
                tx.roll_back().await?;
                return Ok(if repeats { Created::Repeated(found) } else { Created::Taken(found) });
            }
            let create = CreateEventType { environment, name, fields: EventTypeFields::new(new) };
            if let Some(created) = tx.run(create).await? {
                tx.commit().await?;
                return Ok(Created::New(created));
            }
        }
        Err(Fault::Contended("the name was taken and freed again and again"))
    }

    pub(crate) async fn find_event_type_once(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<Option<EventType>, Fault> {
        self.database.read(FindEventType { environment, name: name.as_str() }).await
    }

    pub(crate) async fn list_event_types_once(
        &self,
        environment: EnvironmentId,
        archived: ArchivedTypes,
        slice: &Slice<Name>,
    ) -> Result<Piece<EventType, Name>, Fault> {
        let (above, below) = name_bounds(slice);
        let list = ListEventType {
            environment,
            above,
            below,
            archived: archived == ArchivedTypes::Included,
            limit: slice.limit,
            bytes_max: PAGE_BYTES_MAX,
            order: slice.order,
        };
        let found = self.database.read(list).await?.into_iter().map(Ok);
        Piece::gather(found, slice.limit, event_type_bytes, |row| row.name.clone(), None)
    }

    pub(crate) async fn replace_event_type_once(
        &self,
        environment: EnvironmentId,
        new: &EventType,
    ) -> Result<Replaced<EventType>, Fault> {
        let replace = ReplaceEventType {
            environment,
            name: new.name.as_str(),
            revision: new.revision,
            fields: EventTypeFields::new(new),
        };
        Ok(self.database.write(replace).await?.map_or(Replaced::Stale, Replaced::Done))
    }

    pub(crate) async fn delete_event_type_once(&self, environment: EnvironmentId, name: &Name) -> Result<bool, Fault> {
        let deleted = self.database.write(DeleteEventType { environment, name: name.as_str() }).await?;
        Ok(deleted > 0)
    }

    pub(crate) async fn unknown_event_types_once(
        &self,
        environment: EnvironmentId,
        names: &[Name],
    ) -> Result<Vec<Name>, Fault> {
        let asked = names.iter().map(Name::as_str).collect();
        let known = self.database.read(KnownEventType { environment, names: asked }).await?;
        Ok(names.iter().filter(|name| !known.contains(name)).cloned().collect())
    }
}

impl<'a> EventTypeFields<'a> {
    fn new(event_type: &'a EventType) -> EventTypeFields<'a> {
        EventTypeFields {
            description: &event_type.description,
            archived: event_type.archived,
            deprecated: event_type.deprecated,
            schemas: event_type.schemas.as_deref(),
            feature_flag: event_type.feature_flag.as_ref().map(Name::as_str),
            group_name: event_type.group_name.as_deref(),
        }
    }
}
