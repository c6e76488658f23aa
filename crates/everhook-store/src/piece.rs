//! Pieces of lists: how far one look goes, in rows and in bytes, and where the next one goes on.
//!
//! Shared by the stores, so that all of them end a piece by the same rule.

use std::time::Duration;

use everhook_core::id::{ID_BYTES, Id};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::time::Timestamp;

use crate::catalog::Order;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(weights: &[usize], limit: usize, scanned: Option<usize>) -> (usize, Option<usize>) {
        let rows = weights.iter().copied().enumerate().map(Ok::<_, ()>);
        let piece = Piece::gather(rows, limit, |row| row.1, |row| row.0, scanned).unwrap();
        (piece.rows.len(), piece.next)
    }

    #[test]
    fn a_piece_ends_when_it_has_its_bytes() {
        assert_eq!(gather(&[1, 2, 3], 10, None), (3, None));
        assert_eq!(gather(&[PAGE_BYTES_MAX, 1, 1], 10, None), (2, Some(1)));
        assert_eq!(gather(&[PAGE_BYTES_MAX + 1, 1], 10, None), (1, Some(0)), "one row at least");
        assert_eq!(gather(&[usize::MAX, usize::MAX], 10, None), (1, Some(0)));
        assert_eq!(gather(&[PAGE_BYTES_MAX + 1, 1], 1, None), (1, None), "all that were asked for");
    }

    #[test]
    fn a_piece_goes_on_where_the_look_ended() {
        assert_eq!(gather(&[], 10, Some(7)), (0, Some(7)));
        assert_eq!(gather(&[1, 1], 10, Some(7)), (2, Some(7)));
        assert_eq!(gather(&[1, 1], 2, Some(7)), (2, None), "all that were asked for");
        assert_eq!(gather(&[PAGE_BYTES_MAX + 1, 1], 10, Some(7)), (1, Some(0)), "what comes first");
    }

    #[test]
    fn a_range_is_what_both_ends_allow() {
        let id = |last: u8| Id::from_bytes(std::array::from_fn(|at| if at == ID_BYTES - 1 { last } else { 9 }));
        let range = IdRange::beyond(Some(id(3)), Order::Ascending).until(id(5), Order::Ascending);
        let is_in = |id: Id| id.as_bytes().as_slice() > &range.above[..] && id.as_bytes().as_slice() < &range.below[..];
        assert_eq!([3, 4, 5, 6].map(|last| is_in(id(last))), [false, true, true, false]);
        let range = IdRange::beyond(Some(id(5)), Order::Descending).until(id(3), Order::Descending);
        let is_in = |id: Id| id.as_bytes().as_slice() > &range.above[..] && id.as_bytes().as_slice() < &range.below[..];
        assert_eq!([2, 3, 4, 5].map(|last| is_in(id(last))), [false, true, true, false]);
        let now = Timestamp::from_millis(1_790_000_000_000);
        let hour = Duration::from_secs(3600);
        let range = IdRange::beyond(None, Order::Ascending).between(Some(now), Some(now), (hour, hour));
        let at = |at: Timestamp| Id::floor(at).as_bytes().to_vec();
        assert!(at(now) > range.above && at(now) < range.below);
        assert!(at(now.plus(2 * hour)) > range.below && at(now.minus(2 * hour)) < range.above);
    }
}
