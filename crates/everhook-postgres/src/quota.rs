//! Quotas, and counts of the objects that they bound.

use everhook_core::id::EnvironmentId;
use everhook_core::limits::QUOTAS_READ_MAX;
use everhook_core::quota::Quota;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::query::CountMessages;
use everhook_store::quota::{MessageCount, MessageRange};
use everhook_store::sql::shared::{CountMessage, ListQuota};

use crate::error::Fault;
use crate::resource::readable;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn list_quotas_once(&self, since: Timestamp) -> Result<Vec<(EnvironmentId, Quota)>, Fault> {
        let found = self.database.read(ListQuota { since, limit: QUOTAS_READ_MAX }).await?;
        Ok(found.iter().filter_map(|row| Some((row.environment, readable(row, None)?))).collect())
    }

    pub(crate) async fn count_messages_once(&self, count: &CountMessages) -> Result<MessageCount, Fault> {
        let CountMessages { scope: Scope { environment }, application, after, limit } = *count;
        let MessageRange { above: (above_application, above), below } = MessageRange::of(application, after);
        let counted = self.database.read(CountMessage { environment, above_application, above, below, limit }).await?;
        let (messages, application, id) = counted.unwrap_or_default();
        Ok(MessageCount::of(messages.unsigned_abs(), application.zip(id), limit))
    }
}
