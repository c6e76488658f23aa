//! The range of positions that one poll reads.

use everhook_core::limits::SCAN_ROWS_MAX;
use everhook_core::poll::PollMark;
use everhook_store::poll::{PollRange, since};

#[track_caller]
fn check(after: i64, bounds: Option<(Option<i64>, i64)>, want: (i64, i64)) {
    let range = PollRange::new(after, bounds);
    assert_eq!((range.after, range.until), want);
}

#[test]
fn a_poll_reads_a_bounded_range_behind_its_mark() {
    let scan = i64::try_from(SCAN_ROWS_MAX).unwrap();
    check(0, None, (0, 0));
    check(0, Some((Some(1), 3)), (0, 3));
    check(2, Some((Some(1), 3)), (2, 3));
    check(0, Some((Some(1), 2 * scan)), (0, scan));
    check(9, Some((Some(1), 3)), (3, 3));
}

#[test]
fn a_poll_skips_pruned_positions() {
    check(0, Some((Some(100), 103)), (99, 103));
    check(0, Some((None, 103)), (103, 103));
    check(101, Some((Some(100), 103)), (101, 103));
}

#[test]
fn a_page_ends_at_its_last_row_or_at_the_end_of_the_range() {
    let scan = i64::try_from(SCAN_ROWS_MAX).unwrap();
    let range = PollRange::new(0, Some((Some(1), 2 * scan)));
    let page = range.page(Vec::new(), false, 7);
    assert_eq!((page.mark, page.done), (PollMark { position: scan, generation: 7 }, false), "more may follow the scan");
    let last = PollRange::new(scan, Some((Some(1), 2 * scan))).page(Vec::new(), false, 7);
    assert!(last.done);
}

#[test]
fn a_time_without_later_messages_is_the_end() {
    assert_eq!(since(Some(5), Some((Some(1), 9))), 4);
    assert_eq!(since(None, Some((Some(1), 9))), 9);
    assert_eq!(since(None, None), 0);
}
