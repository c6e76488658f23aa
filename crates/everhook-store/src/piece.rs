//! Pieces of lists: how far one look goes, in rows and in bytes, and where the next one goes on.
//!
//! Shared by the stores, so that all of them end a piece by the same rule.

use std::time::Duration;

use everhook_core::id::{ID_BYTES, Id};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;

use crate::catalog::{Order, Slice};

/// A piece of a list. It may have fewer rows than were asked for, and none, although the list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<T, K> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the look ended before it had all the rows that were asked for; none if it reached the end of the list.
    pub next: Option<K>,
}

impl<T, K> Piece<T, K> {
    /// Takes rows until they have the bytes of a page, and one row at least. `scanned` is where a look ended that did not see the
    /// whole list; `limit` is how many rows were asked for.
    pub fn gather<E>(
        rows: impl IntoIterator<Item = Result<T, E>>,
        limit: usize,
        weigh: impl Fn(&T) -> usize,
        key: impl Fn(&T) -> K,
        scanned: Option<K>,
    ) -> Result<Piece<T, K>, E> {
        let (mut gathered, mut bytes) = (Vec::new(), 0_usize);
        for row in rows {
            let row = row?;
            bytes = bytes.saturating_add(weigh(&row));
            let last = (bytes > PAGE_BYTES_MAX).then(|| key(&row));
            gathered.push(row);
            if let Some(last) = last.filter(|_| gathered.len() < limit) {
                return Ok(Piece { rows: gathered, next: Some(last) });
            }
            if gathered.len() == limit {
                break;
            }
        }
        let next = scanned.filter(|_| gathered.len() < limit);
        Ok(Piece { rows: gathered, next })
    }
}

/// Sorts behind every name: their alphabet ends before it.
const ABOVE_NAMES: &str = "~";

/// The names strictly between which a piece of a list lies.
pub fn names_beyond(slice: &Slice<Name>) -> (&str, &str) {
    let after = slice.after.as_ref().map(Name::as_str);
    match slice.order {
        Order::Ascending => (after.unwrap_or(""), ABOVE_NAMES),
        Order::Descending => ("", after.unwrap_or(ABOVE_NAMES)),
    }
}

/// The bytes strictly between which the ids of a piece are: none has fewer bytes than the one, or more than the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// Smaller than all of them.
    pub above: Vec<u8>,
    /// Larger than all of them.
    pub below: Vec<u8>,
}

impl IdRange {
    /// All ids beyond `after` in this direction.
    pub fn beyond(after: Option<Id>, order: Order) -> IdRange {
        let all = IdRange { above: Vec::new(), below: vec![0xff; ID_BYTES + 1] };
        match (after, order) {
            (None, _) => all,
            (Some(after), Order::Ascending) => IdRange { above: after.as_bytes().to_vec(), ..all },
            (Some(after), Order::Descending) => IdRange { below: after.as_bytes().to_vec(), ..all },
        }
    }

    /// Those that can be of something between two times, whose id was drawn at most `early` before it and `late` after it.
    #[must_use]
    pub fn between(
        self,
        after: Option<Timestamp>,
        before: Option<Timestamp>,
        (early, late): (Duration, Duration),
    ) -> IdRange {
        let floor = after.map(|after| Id::floor(after.minus(early)).as_bytes().to_vec());
        let ceiling = before.map(|before| Id::floor(before.plus(late)).as_bytes().to_vec());
        IdRange {
            above: floor.map_or(self.above.clone(), |floor| floor.max(self.above)),
            below: ceiling.map_or(self.below.clone(), |ceiling| ceiling.min(self.below)),
        }
    }

    /// Those up to `last`, which belongs to them.
    #[must_use]
    pub fn until(self, last: Id, order: Order) -> IdRange {
        match order {
            Order::Ascending => IdRange { below: last.successor().as_bytes().to_vec(), ..self },
            Order::Descending => IdRange { above: last.predecessor().as_bytes().to_vec(), ..self },
        }
    }
}
