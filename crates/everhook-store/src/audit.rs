//! The audit log as the stores read it.

use everhook_core::time::Timestamp;

use crate::catalog::{Order, Slice};

/// The entries that a list shows. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub actor: Option<String>,
    pub action: Option<String>,
    /// The beginning of the object's path.
    pub object: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Returns the positions between which the entries of a slice are.
    pub fn bounds(&self, slice: &Slice<i64>) -> (i64, i64) {
        match (slice.after, slice.order) {
            (Some(after), Order::Ascending) => (after, i64::MAX),
            (Some(after), Order::Descending) => (0, after),
            (None, _) => (0, i64::MAX),
        }
    }
}
