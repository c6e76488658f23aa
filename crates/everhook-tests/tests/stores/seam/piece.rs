//! Lists that are read in parts.

use std::time::Duration;

use everhook_core::id::{ID_BYTES, Id};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Order;
use everhook_store::piece::{IdRange, Piece};

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
    let range = IdRange::beyond(Some(id(3)), Order::Ascending).until(Some(id(5)), Order::Ascending);
    let is_in = |id: Id| id.as_bytes().as_slice() > &range.above[..] && id.as_bytes().as_slice() < &range.below[..];
    assert_eq!([3, 4, 5, 6].map(|last| is_in(id(last))), [false, true, true, false]);
    let range = IdRange::beyond(Some(id(5)), Order::Descending).until(Some(id(3)), Order::Descending);
    let is_in = |id: Id| id.as_bytes().as_slice() > &range.above[..] && id.as_bytes().as_slice() < &range.below[..];
    assert_eq!([2, 3, 4, 5].map(|last| is_in(id(last))), [false, true, true, false]);
    let now = Timestamp::from_millis(1_790_000_000_000);
    let hour = Duration::from_secs(3600);
    let range = IdRange::beyond(None, Order::Ascending).between(Some(now), Some(now), (hour, hour));
    let at = |at: Timestamp| Id::floor(at).as_bytes().to_vec();
    assert!(at(now) > range.above && at(now) < range.below);
    assert!(at(now.plus(2 * hour)) > range.below && at(now.minus(2 * hour)) < range.above);
}
