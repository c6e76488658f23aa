//! The pause of egress.

use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{EndEgressPause, StartEgressPause};

use crate::error::Fault;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Starts a pause with this reason, or ends it.
    pub(crate) async fn set_egress_pause_once(&self, reason: Option<&str>) -> Result<(), Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        match reason {
            Some(reason) => tx.finish(StartEgressPause { reason, now: StoreClock::Database }).await.map(drop),
            None => tx.finish(EndEgressPause {}).await.map(drop),
        }
    }
}
