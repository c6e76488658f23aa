//! Batches as users see them. `job::batch` updates them with the changes of their jobs.

use everhook_core::batch::{Batch, BatchChange, Intake};
use everhook_core::id::{ApplicationId, BatchId, EnvironmentId};
use everhook_store::batch::BatchRecord;
use everhook_store::catalog::{Created, Order, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::made::WithMade;
use everhook_store::piece::IdRange;
use everhook_store::sql::rows::json;
use everhook_store::statement;

use crate::append::FindGroupVersion;
use crate::columns::Keys;
use crate::dedup;
use crate::error::Fault;
use crate::job::batch::Changes;
use crate::store::PostgresStore;

statement! {
    CreateBatch<'a> = "create_batch" {
        environment: EnvironmentId, id: BatchId, application: ApplicationId, name: &'a str, prefix: &'a str,
        metadata: String, intake: Intake, phase: u32,
    } -> Option<(EnvironmentId, BatchRecord)>;
    pub(crate) FindBatch = "find_batch" { environment: EnvironmentId, id: BatchId }
        -> Option<(EnvironmentId, BatchRecord)>;
    ListBatch<'a> = "list_batch" {
        environment: EnvironmentId, above: &'a [u8], below: &'a [u8], limit: usize, order: Order,
    } -> Vec<(EnvironmentId, BatchRecord)>;
}

impl PostgresStore {
    pub(crate) async fn create_batch_once(
        &self,
        environment: EnvironmentId,
        new: &BatchRecord,
        key: Option<&DedupKey>,
    ) -> Result<Created<BatchRecord>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        if let Some(key) = key
            && let Some(holder) = dedup::take_one(&tx, environment, key, new.id.0).await?
        {
            tx.roll_back().await?;
            let known = if holder.body == key.body {
                self.find_batch_once(environment, BatchId(holder.object)).await?
            } else {
                None
            };
            return Ok(known.map_or(Created::KeyReused, Created::Repeated));
        }
        let wanted = Keys::of([(environment, new.application.0)]);
        if tx.run(FindGroupVersion { wanted }).await?.is_empty() {
            tx.roll_back().await?;
            return Ok(Created::NoParent);
        }
        let empty = Batch::new();
        let create = CreateBatch {
            environment,
            id: new.id,
            application: new.application,
            name: &new.name,
            prefix: new.prefix.as_str(),
            metadata: json(&new.metadata),
            intake: empty.intake,
            phase: empty.phase,
        };
        let Some((_, record)) = tx.run(create).await? else {
            tx.roll_back().await?;
            let known = self.find_batch_once(environment, new.id).await?;
            return known.map(Created::Repeated).ok_or(Fault::Contended("the batch was deleted while it was created"));
        };
        tx.commit().await?;
        Ok(Created::New(record))
    }

    pub(crate) async fn find_batch_once(
        &self,
        environment: EnvironmentId,
        id: BatchId,
    ) -> Result<Option<BatchRecord>, Fault> {
        Ok(self.database.read(FindBatch { environment, id }).await?.map(|(_, record)| record))
    }

    pub(crate) async fn list_batches_once(
        &self,
        environment: EnvironmentId,
        slice: &Slice<BatchId>,
    ) -> Result<Vec<BatchRecord>, Fault> {
        let IdRange { above, below } = IdRange::beyond(slice.after.map(|id| id.0), slice.order);
        let (above, below, limit, order) = (above.as_slice(), below.as_slice(), slice.limit, slice.order);
        let found = self.database.read(ListBatch { environment, above, below, limit, order }).await?;
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    pub(crate) async fn seal_batch_once(
        &self,
        environment: EnvironmentId,
        id: BatchId,
    ) -> Result<WithMade<Option<BatchRecord>>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let now = tx.now().await?;
        let changes = Changes::from([((environment, id), vec![BatchChange::Sealed])]);
        let WithMade { answer: mut told, made } = self.tell_batches(&tx, &changes, now).await?;
        tx.commit().await?;
        Ok(made.with(told.remove(&(environment, id))))
    }
}
