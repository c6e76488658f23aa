//! What users configure. Each kind of object has a file; this one gathers them behind the trait.

mod application;
mod endpoint;
mod environment;
mod event_type;

use everhook_core::id::ID_BYTES;
use everhook_store::catalog::Order;

use crate::error::Fault;

/// Sorts behind every name: their alphabet ends before it.
pub(crate) const NAME_ABOVE: &str = "~";
/// How often a creation looks again when what is in its way disappears.
const LOOKS_MAX: usize = 3;

/// The bytes strictly between which the ids of a slice are: shorter than every id below, longer than every id above.
pub(crate) fn id_bounds(order: Order, after: Option<&[u8; ID_BYTES]>) -> (Vec<u8>, Vec<u8>) {
    let after = after.map(|id| id.to_vec());
    let (below, above) = (Vec::new(), vec![0xff; ID_BYTES + 1]);
    match order {
        Order::Ascending => (after.unwrap_or(below), above),
        Order::Descending => (below, after.unwrap_or(above)),
    }
}

pub(crate) fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Whether a write was refused because a name is taken.
fn is_taken(fault: &Fault) -> bool {
    let (Fault::Statement(error) | Fault::Commit(error)) = fault else { return false };
    error.code() == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
}
