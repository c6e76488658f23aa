//! Event types.

use everhook_core::event_type::EventType;
use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::name::Name;
use everhook_store::catalog::{ArchivedTypes, Created, Order, Replaced, Slice, event_type_bytes};
use everhook_store::dedup::DedupKey;
use everhook_store::piece::Piece;

use super::{LOOKS_MAX, NAME_ABOVE, count};
use crate::error::Fault;
use crate::keys;
use crate::rows;
use crate::sql;
use crate::statement::Params;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn create_event_type_once(
        &self,
        environment: EnvironmentId,
        new: &EventType,
        key: Option<&DedupKey>,
    ) -> Result<Created<EventType>, Fault> {
        let name = new.name.as_str();
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let mut repeats = false;
        // Event types have no id: the key stands for the name in the request that came with it.
        if let Some(key) = key
            && let Some(holder) = keys::take_one(&transaction, environment, key, Id::MIN).await?
        {
            if holder.body != key.body {
                transaction.roll_back().await?;
                return Ok(Created::KeyReused);
            }
            repeats = true;
        }
        let flag = new.feature_flag.as_ref().map(|flag| flag.as_str());
        let EventType { description, archived, deprecated, schemas, group_name, .. } = new;
        let params: Params<'_> =
            &[&environment.0, &name, description, archived, deprecated, schemas, &flag, group_name];
        for _ in 0..LOOKS_MAX {
            if let Some(row) = transaction.rows(&sql::FIND_EVENT_TYPE, &[&environment.0, &name]).await?.first() {
                let found = rows::event_type(row)?;
                transaction.roll_back().await?;
                return Ok(if repeats { Created::Repeated(found) } else { Created::Taken(found) });
            }
            if let Some(row) = transaction.rows(&sql::CREATE_EVENT_TYPE, params).await?.first() {
                let created = rows::event_type(row)?;
                transaction.commit().await?;
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
        let found = self.database.read(&sql::FIND_EVENT_TYPE, &[&environment.0, &name.as_str()]).await?;
        found.first().map(rows::event_type).transpose()
    }

    pub(crate) async fn list_event_types_once(
        &self,
        environment: EnvironmentId,
        archived: ArchivedTypes,
        slice: &Slice<Name>,
    ) -> Result<Piece<EventType, Name>, Fault> {
        let after = slice.after.as_ref().map(Name::as_str);
        let (low, high) = match slice.order {
            Order::Ascending => (after.unwrap_or(""), NAME_ABOVE),
            Order::Descending => ("", after.unwrap_or(NAME_ABOVE)),
        };
        let text = sql::directed(&sql::LIST_EVENT_TYPE, slice.order);
        let archived = archived == ArchivedTypes::Included;
        let (limit, bytes) = (count(slice.limit), count(PAGE_BYTES_MAX));
        let params: Params<'_> = &[&environment.0, &low, &high, &archived, &limit, &bytes];
        let found = self.database.read_as(&sql::LIST_EVENT_TYPE, &text, params).await?;
        let read = found.iter().map(rows::event_type);
        Piece::gather(read, slice.limit, event_type_bytes, |row| row.name.clone(), None)
    }

    pub(crate) async fn replace_event_type_once(
        &self,
        environment: EnvironmentId,
        new: &EventType,
    ) -> Result<Replaced<EventType>, Fault> {
        let (name, flag) = (new.name.as_str(), new.feature_flag.as_ref().map(|flag| flag.as_str()));
        let EventType { description, archived, deprecated, schemas, group_name, revision, .. } = new;
        let params: Params<'_> =
            &[&environment.0, &name, revision, description, archived, deprecated, schemas, &flag, group_name];
        let changed = self.database.write(&sql::REPLACE_EVENT_TYPE, params).await?;
        changed.first().map_or(Ok(Replaced::Stale), |row| rows::event_type(row).map(Replaced::Done))
    }

    pub(crate) async fn delete_event_type_once(&self, environment: EnvironmentId, name: &Name) -> Result<bool, Fault> {
        let deleted = self.database.change(&sql::DELETE_EVENT_TYPE, &[&environment.0, &name.as_str()]).await?;
        Ok(deleted > 0)
    }

    pub(crate) async fn unknown_event_types_once(
        &self,
        environment: EnvironmentId,
        names: &[Name],
    ) -> Result<Vec<Name>, Fault> {
        let asked: Vec<&str> = names.iter().map(Name::as_str).collect();
        let found = self.database.read(&sql::KNOWN_EVENT_TYPE, &[&environment.0, &asked]).await?;
        let known: Vec<&str> =
            found.iter().map(|row| rows::Reader::new(row, "event_type").get("name")).collect::<Result<_, _>>()?;
        Ok(names.iter().filter(|name| !known.contains(&name.as_str())).cloned().collect())
    }
}
