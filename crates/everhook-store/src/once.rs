//! Once-slots as they are shown, and their reset. They are claimed by [`append`](crate::store::Store::append) alone.

use std::collections::BTreeMap;

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::name::Name;
use everhook_core::once::OnceSlot;
use everhook_core::time::Timestamp;

/// A once-slot as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceRecord {
    /// Its key.
    pub key: Name,
    /// Phase and winner.
    pub slot: OnceSlot,
    /// How many calls it has suppressed, in all of its phases.
    pub suppressed: u64,
    /// When it was first claimed.
    pub created_at: Timestamp,
    /// When its winner was accepted.
    pub claimed_at: Timestamp,
    /// When it was last claimed or reset.
    pub updated_at: Timestamp,
}

/// Calls that a slot has suppressed with one winner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suppression {
    /// The tenant.
    pub environment: EnvironmentId,
    /// Whose slot.
    pub application: ApplicationId,
    /// Which one.
    pub key: Name,
    /// The message that had it.
    pub winner: MessageId,
}

/// The calls that one transaction has suppressed, counted.
#[derive(Clone, Debug, Default)]
pub struct Suppressions(BTreeMap<Suppression, i64>);

impl Suppressions {
    /// Counts one more.
    pub fn add(&mut self, suppression: Suppression) {
        *self.0.entry(suppression).or_default() += 1;
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each with its number of calls.
    pub fn iter(&self) -> impl Iterator<Item = (&Suppression, i64)> {
        self.0.iter().map(|(suppression, calls)| (suppression, *calls))
    }
}
