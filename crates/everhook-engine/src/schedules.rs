//! Starts the runs of due schedules.
//!
//! Every node polls, without a leader: the store lets a node skip the schedules that another node is processing.

use std::time::Duration;

use tracing::{debug, warn};

use crate::node::Node;

/// Schedules that one transaction processes.
const FIRED_MAX: usize = 100;
/// The longest time between two polls, because schedules may be changed at any time.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two polls, so that a store that always reports due schedules does not cause a busy loop.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

pub(crate) async fn run(node: &Node) {
    loop {
        let next_look = match node.store.fire_due(FIRED_MAX).await {
            Ok(fired) => {
                node.metrics.made(fired.made);
                node.metrics.fired(&fired.lateness);
                node.traffic.accepted(fired.messages.iter().copied());
                if fired.started > 0 {
                    debug!("started {} runs of schedules", fired.started);
                    node.wakeups.hint_made(fired.made);
                }
                fired.next_look
            }
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "could not start due schedules");
                None
            }
        };
        tokio::time::sleep(next_look.unwrap_or(LOOK_INTERVAL).clamp(LOOK_PAUSE, LOOK_INTERVAL)).await;
    }
}
