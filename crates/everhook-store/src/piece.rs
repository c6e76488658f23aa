//! Pieces of lists: the end of one read in rows and bytes, and the key where the next read continues.
//!
//! Both stores use it, so that they end a piece by the same rule.

use std::time::Duration;

use everhook_core::id::{ID_BYTES, Id};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;

use crate::catalog::{Order, Slice};
use crate::sql::shared::{IdScan, MessageStep};

/// A piece of a list. It may be shorter than requested, or even empty, although the list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<T, K> {
    pub rows: Vec<T>,
    /// The key where the read stopped early; none if the piece is complete or reached the end of the list.
    pub next: Option<K>,
}

impl<T, K> Piece<T, K> {
    /// Takes rows up to the bytes of a page, and at least one row. `limit` is the requested number of rows. `scanned`
    /// is the last key of a scan that stopped before the end of the list.
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

    /// Returns the key after which the next read continues; none at the end of the list. `limit` is the requested
    /// number of rows.
    pub fn continues_after(&self, limit: usize, key: impl Fn(&T) -> K) -> Option<K>
    where
        K: Clone,
    {
        self.next.clone().or_else(|| self.rows.last().filter(|_| self.rows.len() == limit).map(key))
    }
}

/// Sorts after every name, because the alphabet of names ends before it.
const ABOVE_NAMES: &str = "~";

/// Returns the exclusive bounds of a slice of names.
pub fn names_beyond(slice: &Slice<Name>) -> (&str, &str) {
    let after = slice.after.as_ref().map(Name::as_str);
    match slice.order {
        Order::Ascending => (after.unwrap_or(""), ABOVE_NAMES),
        Order::Descending => ("", after.unwrap_or(ABOVE_NAMES)),
    }
}

/// Returns the end of a period; none includes everything.
pub fn before(before: Option<Timestamp>) -> Timestamp {
    before.unwrap_or(Timestamp::from_micros(i64::MAX))
}

/// Returns the start of a period; none includes everything.
pub fn after(after: Option<Timestamp>) -> Timestamp {
    after.unwrap_or(Timestamp::from_micros(i64::MIN))
}

/// The exclusive bounds of the ids of a piece, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRange {
    pub above: Vec<u8>,
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

    /// Narrows the range to a period. The id of an object may be drawn up to `early` before and `late` after its time.
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

    /// Narrows the range to ids up to the last one of a scan, inclusive; none leaves the range.
    #[must_use]
    pub fn until(self, last: Option<Id>, order: Order) -> IdRange {
        match (last, order) {
            (None, _) => self,
            (Some(last), Order::Ascending) => IdRange { below: last.successor().as_bytes().to_vec(), ..self },
            (Some(last), Order::Descending) => IdRange { above: last.predecessor().as_bytes().to_vec(), ..self },
        }
    }

    /// The scan for the last id of this many rows.
    pub fn scan(&self, rows: usize, order: Order) -> IdScan<'_> {
        IdScan { above: &self.above, below: &self.below, skipped: rows.saturating_sub(1), order }
    }

    /// One step of a list through the range.
    pub fn step(&self, limit: usize, order: Order) -> MessageStep<'_> {
        MessageStep { above: &self.above, below: &self.below, limit, order }
    }
}
