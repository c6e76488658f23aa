//! Quotas, and counts of the objects that they bound.

use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_core::limits::QUOTAS_READ_MAX;
use everhook_core::operational::OPERATIONAL_APPLICATION;
use everhook_core::quota::Quota;
use everhook_core::time::Timestamp;
use everhook_store::quota::{MessageCount, MessagePlace, MessageRange, application_range};
use everhook_store::sql::shared::{CountEndpointOpen, CountMessage, ListQuota};

use crate::error::Fault;
use crate::resource::readable;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn list_quotas_once(&self, since: Timestamp) -> Result<Vec<(EnvironmentId, Quota)>, Fault> {
        let found = self.database.read(ListQuota { since, limit: QUOTAS_READ_MAX }).await?;
        Ok(found.iter().filter_map(|row| Some((row.environment, readable(row, None)?))).collect())
    }

    pub(crate) async fn count_endpoints_once(
        &self,
        environment: EnvironmentId,
        application: Option<ApplicationId>,
        limit: usize,
    ) -> Result<usize, Fault> {
        let (low, high) = application_range(application);
        let count = CountEndpointOpen { environment, low, high, hidden: OPERATIONAL_APPLICATION, limit };
        Ok(self.database.read(count).await?.unwrap_or_default())
    }

    pub(crate) async fn count_messages_once(
        &self,
        environment: EnvironmentId,
        application: Option<ApplicationId>,
        after: Option<MessagePlace>,
        limit: usize,
    ) -> Result<MessageCount, Fault> {
        let MessageRange { above: (above_application, above), below } = MessageRange::of(application, after);
        let counted = self.database.read(CountMessage { environment, above_application, above, below, limit }).await?;
        let (messages, application, id) = counted.unwrap_or_default();
        Ok(MessageCount::of(messages.unsigned_abs(), application.zip(id), limit))
    }
}
