//! Open files: each delivery, pushed job, idle connection and client uses one.
//!
//! A server configured for more than the system allows would run out of files under peak load. Such a server lowers its
//! limits at start and logs a warning.

use everhook_api::CONNECTIONS_MAX;
use everhook_sender::SenderConfig;
use tracing::warn;

use crate::config::Config;

/// Reserved for the store, its connections, the log, listeners and name servers.
const SET_ASIDE: usize = 128;

/// Planned use of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    deliveries: usize,
    jobs: usize,
    /// Idle connections to receivers, kept for reuse.
    pub(crate) kept: usize,
    pub(crate) clients: usize,
}

impl Files {
    fn wanted(config: &Config) -> Files {
        let kept = SenderConfig::default().idle_total;
        Files { deliveries: config.dispatch.slots, jobs: config.jobs.slots, kept, clients: CONNECTIONS_MAX }
    }

    fn total(self) -> usize {
        SET_ASIDE + self.deliveries + self.jobs + self.kept + self.clients
    }

    /// Fits the plan into a limit: half for deliveries and jobs, an eighth for idle connections, the rest for clients.
    fn within(self, limit: usize) -> Files {
        if self.total() <= limit {
            return self;
        }
        let left = limit.saturating_sub(SET_ASIDE);
        let sends = (self.deliveries + self.jobs).min(left / 2);
        let jobs = (self.jobs * sends / (self.deliveries + self.jobs)).max(1);
        let deliveries = sends.saturating_sub(jobs).max(1);
        let kept = self.kept.min(left / 8);
        let clients = self.clients.min(left.saturating_sub(deliveries + jobs + kept)).max(1);
        Files { deliveries, jobs, kept, clients }
    }
}

/// A limit that is too low for the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) limit: usize,
    pub(crate) needed: usize,
}

/// Returns the limit that a server would raise its limit to, if it is too low. Changes nothing.
pub(crate) fn shortage(config: &Config) -> Option<Shortage> {
    let limit = usize::try_from(rlimit::Resource::NOFILE.get_hard().ok()?).unwrap_or(usize::MAX);
    let needed = Files::wanted(config).total();
    (limit < needed).then_some(Shortage { limit, needed })
}

/// Raises the limit of open files, and lowers the configured numbers to fit it.
pub(crate) fn fit(config: &mut Config) -> Files {
    let wanted = Files::wanted(config);
    let (dispatch, jobs) = (&mut config.dispatch, &mut config.jobs);
    let Some(limit) = raise_limit() else { return wanted };
    let files = wanted.within(limit);
    if files != wanted {
        let (asked, Files { deliveries, jobs, clients, .. }) = (wanted.total(), files);
        warn!(
            "this process may open {limit} files but its configuration needs {asked}: it runs at most {deliveries} \
             deliveries and {jobs} pushes at once, and serves {clients} clients; raise the limit (`ulimit -n`, \
             LimitNOFILE of systemd), or lower `slots` and `job_slots`"
        );
    }
    (dispatch.slots, jobs.slots) = (files.deliveries, files.jobs);
    dispatch.slots_per_lane = dispatch.slots_per_lane.min(dispatch.slots);
    jobs.slots_per_queue = jobs.slots_per_queue.min(jobs.slots);
    files
}

/// Raises the limit of open files as far as the system allows, because it is often 1024. Returns the new limit, if
/// known.
fn raise_limit() -> Option<usize> {
    let raised = rlimit::increase_nofile_limit(u64::MAX).or_else(|error| {
        warn!(
            error = &error as &dyn std::error::Error,
            "could not raise the limit of open files: using the current limit"
        );
        rlimit::Resource::NOFILE.get_soft()
    });
    raised.ok().map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Files = Files { deliveries: 1000, jobs: 64, kept: 2048, clients: 10_000 };

    #[test]
    fn settings_that_fit_are_left_alone() {
        assert_eq!(WANTED.within(WANTED.total()), WANTED);
        assert_eq!(WANTED.within(usize::MAX), WANTED);
    }

    #[test]
    fn no_limit_is_exceeded() {
        for limit in [256, 1024, 4096, 10_000, WANTED.total() - 1] {
            let files = WANTED.within(limit);
            assert!(files.total() <= limit, "{files:?} with {limit}");
            assert!(files.deliveries > files.jobs && files.jobs > 0 && files.clients > 0, "{files:?} with {limit}");
        }
        assert_eq!(WANTED.within(1024), Files { deliveries: 422, jobs: 26, kept: 112, clients: 336 });
    }

    #[test]
    fn with_next_to_nothing_one_of_each_is_left() {
        assert_eq!(WANTED.within(10), Files { deliveries: 1, jobs: 1, kept: 0, clients: 1 });
    }
}
