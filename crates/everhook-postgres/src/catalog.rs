//! What users configure. Each kind of object has a file; this one gathers them behind the trait.

pub(crate) mod application;
pub(crate) mod endpoint;
pub(crate) mod environment;
pub(crate) mod event_type;

use everhook_core::id::ID_BYTES;
use everhook_core::name::Name;
use everhook_store::catalog::{Order, Slice};

use crate::error::Fault;

/// Sorts behind every name: their alphabet ends before it.
const NAME_ABOVE: &str = "~";
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

/// The names strictly between which a piece of a list lies.
pub(crate) fn name_bounds(slice: &Slice<Name>) -> (&str, &str) {
    let after = slice.after.as_ref().map(Name::as_str);
    match slice.order {
        Order::Ascending => (after.unwrap_or(""), NAME_ABOVE),
        Order::Descending => ("", after.unwrap_or(NAME_ABOVE)),
    }
}

/// Whether a write was refused because a name is taken.
fn is_taken(fault: &Fault) -> bool {
    let (Fault::Statement(error) | Fault::Commit(error)) = fault else { return false };
    error.code() == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
}
