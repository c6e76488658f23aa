//! Starts what schedules say. Every node looks, and nobody leads: what one looks at the others skip.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use crate::metrics::Metrics;
use crate::wakeup::Wakeups;
use everhook_store::store::Store;

/// Schedules that are started in one transaction.
const FIRED_MAX: usize = 100;
/// Someone may have changed a schedule.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A store that always says "now" is not asked without end.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Starts what is due, again and again.
pub(crate) async fn run(store: Arc<dyn Store>, wakeups: Arc<Wakeups>, metrics: Arc<Metrics>) {
    loop {
        let next_look = match store.fire_due(FIRED_MAX).await {
            Ok(fired) => {
                metrics.made(fired.made);
                if fired.started > 0 {
                    debug!("started {} runs of schedules", fired.started);
                    wakeups.hint_made(fired.made);
                }
                fired.next_look
            }
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "could not look at the schedules");
                None
            }
        };
        tokio::time::sleep(next_look.unwrap_or(LOOK_INTERVAL).clamp(LOOK_PAUSE, LOOK_INTERVAL)).await;
    }
}
