//! The number of tasks per lease, so that their payloads fit into the deadline and into memory.
//!
//! Payloads are read after the tasks are chosen, so the number follows from earlier leases. After a lease with too many
//! bytes the next one takes fewer tasks; after a small one the number grows again.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use everhook_core::limits::APPEND_BATCH_BYTES_MAX;
use everhook_core::message::Message;
use everhook_store::lease::Leased;

use crate::error::Fault;

/// The payload bytes that one lease should return.
const LEASE_BYTES: usize = APPEND_BATCH_BYTES_MAX;

/// The sizings of a store, one for each kind of task.
#[derive(Debug, Default)]
pub(crate) struct LeaseSizings {
    pub(crate) deliveries: LeaseSizing,
    pub(crate) jobs: LeaseSizing,
}

/// The number of tasks that the last leases suggest.
#[derive(Debug)]
pub(crate) struct LeaseSizing(AtomicUsize);

impl Default for LeaseSizing {
    fn default() -> LeaseSizing {
        LeaseSizing(AtomicUsize::new(usize::MAX))
    }
}

impl LeaseSizing {
    /// Returns the number of tasks to take out of `wanted`.
    pub(crate) fn limit(&self, wanted: usize) -> usize {
        wanted.min(self.0.load(Ordering::Relaxed))
    }

    /// Learns from a lease of at most `wanted` tasks. `weigh` returns its tasks and their bytes.
    pub(crate) fn learn<T>(
        &self,
        wanted: usize,
        lease: Result<T, Fault>,
        weigh: impl Fn(&T) -> (usize, usize),
    ) -> Result<T, Fault> {
        match &lease {
            Ok(grant) => {
                let (tasks, bytes) = weigh(grant);
                self.record_batch(tasks, bytes);
            }
            Err(Fault::Slow) => self.record_timeout(wanted),
            Err(_) => {}
        }
        lease
    }

    fn record_batch(&self, tasks: usize, bytes: usize) {
        let limit = self.0.load(Ordering::Relaxed);
        if bytes > LEASE_BYTES {
            self.0.store((tasks * LEASE_BYTES / bytes).max(1), Ordering::Relaxed);
        } else if tasks >= limit / 2 {
            self.0.store(limit.saturating_mul(2), Ordering::Relaxed);
        }
    }

    /// Records that a lease of this many tasks exceeded its deadline.
    fn record_timeout(&self, wanted: usize) {
        self.0.store((self.limit(wanted) / 4).max(1), Ordering::Relaxed);
    }
}

/// Returns the payload bytes of tasks. A message for many endpoints counts once, because it is read once.
pub(crate) fn payload_bytes(tasks: &[Leased]) -> usize {
    let mut messages: Vec<&Message> = tasks.iter().filter_map(|leased| leased.message()).map(|it| &**it).collect();
    messages.sort_unstable_by_key(|message| message.id);
    messages.dedup_by_key(|message| message.id);
    let messages = messages.iter().filter_map(|message| message.payload.as_ref());
    let jobs = tasks.iter().filter_map(|leased| leased.job()?.payload.as_ref());
    messages.chain(jobs).map(Bytes::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_adapts_to_what_leases_bring() {
        let sizing = LeaseSizing::default();
        assert_eq!(sizing.limit(500), 500);
        sizing.record_timeout(500);
        assert_eq!(sizing.limit(500), 125);
        sizing.record_batch(100, 10 * LEASE_BYTES);
        assert_eq!(sizing.limit(500), 10);
        sizing.record_batch(4, 4);
        assert_eq!(sizing.limit(500), 10, "it was not asked for more");
        sizing.record_batch(10, 10);
        assert_eq!(sizing.limit(500), 20);
        sizing.record_batch(1, 2 * LEASE_BYTES);
        assert_eq!(sizing.limit(500), 1, "at least one");
    }
}
