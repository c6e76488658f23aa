//! The gate of all requests to receivers, outboxes and targets of pushes: closed while egress is paused.
//!
//! The pause is in the store, and every server reads it at its start and at an interval. While the gate is closed, the
//! node leases neither deliveries nor pushed jobs, and relays no outbox. It accepts work, and it serves workers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everhook_core::egress::EgressPause;
use everhook_store::error::StoreError;
use everhook_store::query;
use everhook_store::store::Reads;
use tracing::{debug, info, warn};

use crate::node::Node;

/// The interval at which a node reads the pause. A change takes effect within this time.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct EgressGate {
    is_closed: AtomicBool,
    pause: Mutex<Option<EgressPause>>,
}

impl EgressGate {
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Stores the pause. Returns whether the gate was opened or closed by it.
    fn set(&self, pause: Option<EgressPause>) -> bool {
        let is_closed = pause.is_some();
        *self.pause.lock().expect("nothing panics while it holds this lock") = pause;
        self.is_closed.swap(is_closed, Ordering::AcqRel) != is_closed
    }
}

impl Node {
    /// The pause of egress, as this node has last read it.
    pub fn egress_pause(&self) -> Option<EgressPause> {
        self.egress.pause.lock().expect("nothing panics while it holds this lock").clone()
    }

    /// Reads the pause at an interval. If the store does not answer, the last answer holds.
    pub(crate) async fn watch_egress(&self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if let Err(error) = self.look_at_egress().await {
                debug!(error = &error as &dyn std::error::Error, "could not read the pause of egress");
            }
        }
    }

    pub(crate) async fn look_at_egress(&self) -> Result<(), StoreError> {
        let pause = self.store.read(query::FindEgressPause {}).await?;
        self.deliveries.close(pause.is_some());
        self.metrics.egress(pause.is_some());
        if !self.egress.set(pause.clone()) {
            return Ok(());
        }
        match pause {
            Some(EgressPause { since, reason }) => warn!(
                "egress is paused since {since}: messages are accepted and nothing is sent until `everhook egress \
                 resume`; reason: {reason}"
            ),
            None => {
                info!("egress is resumed");
                let now = self.clock.elapsed();
                self.deliveries.hint(now);
                self.jobs.hint(now);
            }
        }
        Ok(())
    }
}
