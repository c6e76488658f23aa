//! Batches as users see them. What tells them of their jobs is in `job::batch`.

use everhook_core::batch::{Batch, Change};
use everhook_core::id::{BatchId, EnvironmentId};
use everhook_store::batch::BatchRecord;
use everhook_store::catalog::{Created, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::made::WithMade;

use crate::catalog::{count, id_bounds};
use crate::error::Fault;
use crate::job::batch::{Changes, read};
use crate::job::rows::now;
use crate::keys;
use crate::rows::json;
use crate::sql;
use crate::statement::Params;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn create_batch_once(
        &self,
        environment: EnvironmentId,
        new: &BatchRecord,
        key: Option<&DedupKey>,
    ) -> Result<Created<BatchRecord>, Fault> {
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        if let Some(key) = key
            && let Some(holder) = keys::take_one(&transaction, environment, key, new.id.0).await?
        {
            transaction.roll_back().await?;
            let known = if holder.body == key.body {
                self.find_batch_once(environment, BatchId(holder.object)).await?
            } else {
                None
            };
            return Ok(known.map_or(Created::KeyReused, Created::Repeated));
        }
        let (id, application) = (new.id.as_bytes().as_slice(), new.application.as_bytes().as_slice());
        let (environments, applications) = ([environment.0], [application]);
        let parent: Params<'_> = &[&environments.as_slice(), &applications.as_slice()];
        if transaction.rows(&sql::FIND_APPLICATION_REVISION, parent).await?.is_empty() {
            transaction.roll_back().await?;
            return Ok(Created::NoParent);
        }
        let empty = Batch::new();
        let (intake, phase) = (empty.intake.to_db(), i32::try_from(empty.phase).unwrap_or(i32::MAX));
        let (prefix, metadata) = (new.prefix.as_str(), json(&new.metadata));
        let params: Params<'_> = &[&environment.0, &id, &application, &new.name, &prefix, &metadata, &intake, &phase];
        let created = transaction.rows(&sql::CREATE_BATCH, params).await?;
        let Some(row) = created.first() else {
            transaction.roll_back().await?;
            let known = self.find_batch_once(environment, new.id).await?;
            return known.map(Created::Repeated).ok_or(Fault::Contended("a batch was there and is gone"));
        };
        let (_, record) = read(row)?;
        transaction.commit().await?;
        Ok(Created::New(record))
    }

    pub(crate) async fn find_batch_once(
        &self,
        environment: EnvironmentId,
        id: BatchId,
    ) -> Result<Option<BatchRecord>, Fault> {
        let found = self.database.read(&sql::FIND_BATCH, &[&environment.0, &id.as_bytes().as_slice()]).await?;
        found.first().map(read).transpose().map(|found| found.map(|(_, record)| record))
    }

    pub(crate) async fn list_batches_once(
        &self,
        environment: EnvironmentId,
        slice: &Slice<BatchId>,
    ) -> Result<Vec<BatchRecord>, Fault> {
        let (low, high) = id_bounds(slice.order, slice.after.as_ref().map(BatchId::as_bytes));
        let text = sql::directed(&sql::LIST_BATCH, slice.order);
        let params: Params<'_> = &[&environment.0, &low, &high, &count(slice.limit)];
        let found = self.database.read_as(&sql::LIST_BATCH, &text, params).await?;
        found.iter().map(|row| read(row).map(|(_, record)| record)).collect()
    }

    pub(crate) async fn seal_batch_once(
        &self,
        environment: EnvironmentId,
        id: BatchId,
    ) -> Result<WithMade<Option<BatchRecord>>, Fault> {
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let now = now(&transaction.rows(&sql::NOW, &[]).await?)?;
        let changes = Changes::from([((environment, id), vec![Change::Sealed])]);
        let WithMade { answer: mut told, made } = self.tell_batches(&transaction, &changes, now).await?;
        transaction.commit().await?;
        Ok(made.with(told.remove(&(environment, id))))
    }
}
