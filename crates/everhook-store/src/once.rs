//! Once-slots as users see them, and their reset. Only [`append`](crate::store::Store::append) claims them.

use std::collections::BTreeMap;

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::name::Name;
use everhook_core::once::OnceSlot;
use everhook_core::time::Timestamp;

/// A once-slot as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceRecord {
    pub key: Name,
    pub slot: OnceSlot,
    /// The number of suppressed calls, in all phases.
    pub suppressed: u64,
    /// The time of the first claim.
    pub created_at: Timestamp,
    /// The time at which the winner was accepted.
    pub claimed_at: Timestamp,
    /// The time of the last claim or reset.
    pub updated_at: Timestamp,
}

/// A once-slot with the winner that suppressed a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suppression {
    pub environment: EnvironmentId,
    pub application: ApplicationId,
    pub key: Name,
    /// The message that had the slot.
    pub winner: MessageId,
}

/// The suppressed calls of one transaction, counted by slot.
#[derive(Clone, Debug, Default)]
pub struct Suppressions(BTreeMap<Suppression, i64>);

impl Suppressions {
    /// Counts one more call.
    pub fn add(&mut self, suppression: Suppression) {
        *self.0.entry(suppression).or_default() += 1;
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each slot with its number of calls.
    pub fn iter(&self) -> impl Iterator<Item = (&Suppression, i64)> {
        self.0.iter().map(|(suppression, calls)| (suppression, *calls))
    }
}
