//! The pause of egress.

use everhook_core::egress::EgressPause;
use everhook_store::statement;

use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    FindEgressPause = "find_egress_pause" {} -> Option<EgressPause>;
    StartEgressPause<'a> = "start_egress_pause" { reason: &'a str };
    EndEgressPause = "end_egress_pause" {};
}

impl PostgresStore {
    pub(crate) async fn find_egress_pause_once(&self) -> Result<Option<EgressPause>, Fault> {
        self.database.read(FindEgressPause {}).await
    }

    /// Starts a pause with this reason, or ends it.
    pub(crate) async fn set_egress_pause_once(&self, reason: Option<&str>) -> Result<(), Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        match reason {
            Some(reason) => tx.finish(StartEgressPause { reason }).await.map(drop),
            None => tx.finish(EndEgressPause {}).await.map(drop),
        }
    }
}
