//! Applications.

use everhook_core::application::Application;
use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_store::catalog::{Created, Having, Locator, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use tokio_postgres::Row;

use super::{LOOKS_MAX, count, id_bounds, is_taken};
use crate::error::Fault;
use crate::keys;
use crate::rows::{self, json};
use crate::sql;
use crate::statement::Transaction;
use crate::store::PostgresStore;

/// Where `deleted_at` follows the columns of an application.
const DELETED_AT: usize = 8;

impl PostgresStore {
    pub(crate) async fn create_application_once(
        &self,
        environment: EnvironmentId,
        new: &Application,
        key: Option<&DedupKey>,
    ) -> Result<Created<Application>, Fault> {
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        if let Some(key) = key
            && let Some(holder) = keys::take_one(&transaction, environment, key, new.id.0).await?
        {
            let repeated = match holder.body == key.body {
                true => find(&transaction, environment, ApplicationId(holder.object)).await?.map(Created::Repeated),
                false => Some(Created::KeyReused),
            };
            transaction.roll_back().await?;
            return repeated.ok_or(Fault::Contended("what a key stands for is not there"));
        }
        let uid = new.uid.as_ref().map(|uid| uid.as_str());
        let (id, rate, metadata) =
            (new.id.as_bytes().as_slice(), new.throttle_rate.map(i32::from), json(&new.metadata));
        for _ in 0..LOOKS_MAX {
            let params: crate::statement::Params<'_> = &[&environment.0, &id, &uid, &new.name, &rate, &metadata];
            if let Some(row) = transaction.rows(&sql::CREATE_APPLICATION, params).await?.first() {
                let created = rows::application(row)?;
                transaction.commit().await?;
                return Ok(Created::New(created));
            }
            let in_the_way = match uid {
                Some(uid) => transaction.rows(&sql::FIND_APPLICATION_UID, &[&environment.0, &uid]).await?,
                None => Vec::new(),
            };
            let found = match in_the_way.first() {
                Some(row) => Some(rows::application(row)?),
                None => find(&transaction, environment, new.id).await?,
            };
            if let Some(found) = found {
                transaction.roll_back().await?;
                // Its own id can only be there because this was written before.
                let repeated = found.id == new.id;
                return Ok(if repeated { Created::Repeated(found) } else { Created::Taken(found) });
            }
        }
        Err(Fault::Contended("the uid was taken and freed again and again"))
    }

    pub(crate) async fn find_application_once(
        &self,
        environment: EnvironmentId,
        locator: &Locator<ApplicationId>,
    ) -> Result<Option<Application>, Fault> {
        let found = match locator {
            Locator::Id(id) => {
                self.database.read(&sql::FIND_APPLICATION, &[&environment.0, &id.as_bytes().as_slice()]).await?
            }
            Locator::Uid(uid) => {
                self.database.read(&sql::FIND_APPLICATION_UID, &[&environment.0, &uid.as_str()]).await?
            }
        };
        found.first().filter(|row| is_present(row)).map(rows::application).transpose()
    }

    pub(crate) async fn list_applications_once(
        &self,
        environment: EnvironmentId,
        having: Having,
        slice: &Slice<ApplicationId>,
    ) -> Result<Vec<Application>, Fault> {
        let (low, high) = id_bounds(slice.order, slice.after.as_ref().map(ApplicationId::as_bytes));
        let text = sql::directed(&sql::LIST_APPLICATION, slice.order);
        let params: crate::statement::Params<'_> = &[&environment.0, &low, &high, &count(slice.limit), &having.to_db()];
        let found = self.database.read_as(&sql::LIST_APPLICATION, &text, params).await?;
        found.iter().map(rows::application).collect()
    }

    pub(crate) async fn replace_application_once(
        &self,
        environment: EnvironmentId,
        new: &Application,
    ) -> Result<Replaced<Application>, Fault> {
        let uid = new.uid.as_ref().map(|uid| uid.as_str());
        let (id, rate, metadata) =
            (new.id.as_bytes().as_slice(), new.throttle_rate.map(i32::from), json(&new.metadata));
        let params: crate::statement::Params<'_> =
            &[&environment.0, &id, &new.revision, &uid, &new.name, &rate, &metadata];
        match self.database.write(&sql::REPLACE_APPLICATION, params).await {
            Ok(changed) => {
                changed.first().map_or(Ok(Replaced::Stale), |row| rows::application(row).map(Replaced::Done))
            }
            Err(fault) if is_taken(&fault) => Ok(Replaced::Taken),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn delete_application_once(
        &self,
        environment: EnvironmentId,
        id: ApplicationId,
    ) -> Result<bool, Fault> {
        let id: &[u8] = id.as_bytes();
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        if transaction.change(&sql::DELETE_APPLICATION, &[&environment.0, &id]).await? == 0 {
            transaction.roll_back().await?;
            return Ok(false);
        }
        let every_endpoint: Option<&[u8]> = None;
        transaction.rows(&sql::DELETE_ENDPOINT, &[&environment.0, &id, &every_endpoint]).await?;
        transaction.commit().await?;
        Ok(true)
    }
}

/// An application by id, also a deleted one.
async fn find(
    transaction: &Transaction,
    environment: EnvironmentId,
    id: ApplicationId,
) -> Result<Option<Application>, Fault> {
    let found = transaction.rows(&sql::FIND_APPLICATION, &[&environment.0, &id.as_bytes().as_slice()]).await?;
    found.first().map(rows::application).transpose()
}

fn is_present(row: &Row) -> bool {
    matches!(row.try_get::<_, Option<i64>>(DELETED_AT), Ok(None))
}
