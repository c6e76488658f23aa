//! How many tasks one lease takes, so that what they bring with them fits into its time and into memory.
//!
//! Payloads are read after their tasks were chosen. So it goes by what the last leases brought: where that was too much, the next one takes
//! less; where it was little, more again.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use everhook_core::limits::APPEND_BATCH_BYTES_MAX;
use everhook_core::message::Message;
use everhook_store::lease::Leased;

use crate::error::Fault;

/// Payload bytes one lease should bring.
const LEASE_BYTES: usize = APPEND_BATCH_BYTES_MAX;

/// Those of a store.
#[derive(Debug, Default)]
pub(crate) struct LeaseSizings {
    pub(crate) deliveries: LeaseSizing,
    pub(crate) jobs: LeaseSizing,
}

/// What the last leases have taught.
#[derive(Debug)]
pub(crate) struct LeaseSizing(AtomicUsize);

impl Default for LeaseSizing {
    fn default() -> LeaseSizing {
        LeaseSizing(AtomicUsize::new(usize::MAX))
    }
}

impl LeaseSizing {
    /// How many of so many tasks to take.
    pub(crate) fn limit(&self, wanted: usize) -> usize {
        wanted.min(self.0.load(Ordering::Relaxed))
    }

    /// Learns from a lease of at most so many; `weigh` tells how many tasks it brought, and how many bytes with them.
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

    /// A lease brought this.
    fn record_batch(&self, tasks: usize, bytes: usize) {
        let limit = self.0.load(Ordering::Relaxed);
        if bytes > LEASE_BYTES {
            self.0.store((tasks * LEASE_BYTES / bytes).max(1), Ordering::Relaxed);
        } else if tasks >= limit / 2 {
            self.0.store(limit.saturating_mul(2), Ordering::Relaxed);
        }
    }

    /// A lease of so many tasks took too long.
    fn record_timeout(&self, wanted: usize) {
        self.0.store((self.limit(wanted) / 4).max(1), Ordering::Relaxed);
    }
}

/// Bytes of the payloads of tasks; a message that goes to many endpoints was read once.
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
