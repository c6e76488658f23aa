//! Applications.

use everhook_core::application::Application;
use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Having, Locator, Order, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::sql::rows::json;
use everhook_store::statement;

use super::{LOOKS_MAX, id_bounds, is_taken};
use crate::catalog::endpoint::DeleteEndpoint;
use crate::dedup;
use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::Tx;

statement! {
    CreateApplication<'a> = "create_application" {
        environment: EnvironmentId, id: ApplicationId, uid: Option<&'a str>, name: &'a str, throttle_rate: Option<u16>,
        metadata: String,
    } -> Option<Application>;
    // An application and when it was deleted, if it was.
    FindApplication = "find_application" { environment: EnvironmentId, id: ApplicationId }
        -> Option<(Application, Option<Timestamp>)>;
    FindApplicationUid<'a> = "find_application_uid" { environment: EnvironmentId, uid: &'a str }
        -> Option<(Application, Option<Timestamp>)>;
    ListApplication<'a> = "list_application" {
        environment: EnvironmentId, above: &'a [u8], below: &'a [u8], limit: usize, having: Having, order: Order,
    } -> Vec<Application>;
    ReplaceApplication<'a> = "replace_application" {
        environment: EnvironmentId, id: ApplicationId, revision: i64, uid: Option<&'a str>, name: &'a str,
        throttle_rate: Option<u16>, metadata: String,
    } -> Option<Application>;
    DeleteApplication = "delete_application" { environment: EnvironmentId, id: ApplicationId };
}

impl PostgresStore {
    pub(crate) async fn create_application_once(
        &self,
        environment: EnvironmentId,
        new: &Application,
        key: Option<&DedupKey>,
    ) -> Result<Created<Application>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        if let Some(key) = key
            && let Some(holder) = dedup::take_one(&tx, environment, key, new.id.0).await?
        {
            let repeated = match holder.body == key.body {
                true => find(&tx, environment, ApplicationId(holder.object)).await?.map(Created::Repeated),
                false => Some(Created::KeyReused),
            };
            tx.roll_back().await?;
            return repeated.ok_or(Fault::Contended("what a key stands for is not there"));
        }
        let uid = new.uid.as_ref().map(|uid| uid.as_str());
        for _ in 0..LOOKS_MAX {
            let create = CreateApplication {
                environment,
                id: new.id,
                uid,
                name: &new.name,
                throttle_rate: new.throttle_rate,
                metadata: json(&new.metadata),
            };
            if let Some(created) = tx.run(create).await? {
                tx.commit().await?;
                return Ok(Created::New(created));
            }
            let in_the_way = tx.run(uid.map(|uid| FindApplicationUid { environment, uid })).await?;
            let found = match in_the_way {
                Some((found, _)) => Some(found),
                None => find(&tx, environment, new.id).await?,
            };
            if let Some(found) = found {
                tx.roll_back().await?;
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
            Locator::Id(id) => self.database.read(FindApplication { environment, id: *id }).await?,
            Locator::Uid(uid) => self.database.read(FindApplicationUid { environment, uid: uid.as_str() }).await?,
        };
        Ok(found.and_then(|(found, deleted_at)| deleted_at.is_none().then_some(found)))
    }

    pub(crate) async fn list_applications_once(
        &self,
        environment: EnvironmentId,
        having: Having,
        slice: &Slice<ApplicationId>,
    ) -> Result<Vec<Application>, Fault> {
        let (above, below) = id_bounds(slice.order, slice.after.as_ref().map(ApplicationId::as_bytes));
        let (above, below, limit, order) = (above.as_slice(), below.as_slice(), slice.limit, slice.order);
        self.database.read(ListApplication { environment, above, below, limit, having, order }).await
    }

    pub(crate) async fn replace_application_once(
        &self,
        environment: EnvironmentId,
        new: &Application,
    ) -> Result<Replaced<Application>, Fault> {
        let replace = ReplaceApplication {
            environment,
            id: new.id,
            revision: new.revision,
            uid: new.uid.as_ref().map(|uid| uid.as_str()),
            name: &new.name,
            throttle_rate: new.throttle_rate,
            metadata: json(&new.metadata),
        };
        match self.database.write(replace).await {
            Ok(changed) => Ok(changed.map_or(Replaced::Stale, Replaced::Done)),
            Err(fault) if is_taken(&fault) => Ok(Replaced::Taken),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn delete_application_once(
        &self,
        environment: EnvironmentId,
        id: ApplicationId,
    ) -> Result<bool, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        if tx.run(DeleteApplication { environment, id }).await? == 0 {
            tx.roll_back().await?;
            return Ok(false);
        }
        tx.run(DeleteEndpoint { environment, application: id, id: None }).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// An application by id, also a deleted one.
async fn find(tx: &Tx<'_>, environment: EnvironmentId, id: ApplicationId) -> Result<Option<Application>, Fault> {
    Ok(tx.run(FindApplication { environment, id }).await?.map(|(found, _)| found))
}
