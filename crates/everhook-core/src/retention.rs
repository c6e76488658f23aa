//! Choice of the messages that go first when a store is too large.

use std::time::Duration;

use crate::time::Timestamp;

/// The share of the time between the oldest and the newest message that goes at once.
const SLICES: u32 = 8;
const SLICE_MIN: Duration = Duration::from_secs(60);

/// Returns the time before which messages go next, while the store is too large. The store is measured again after each
/// slice, so that it loses little more than it has to.
pub fn next_cut(oldest: Timestamp, newest: Timestamp) -> Timestamp {
    oldest.plus((newest.since(oldest) / SLICES).max(SLICE_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_a_share_of_the_time_and_never_nothing() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1000);
        assert_eq!(next_cut(at(0), at(8000)), at(1000));
        assert_eq!(next_cut(at(0), at(1)), at(60));
        assert_eq!(next_cut(at(5), at(5)), at(65));
    }
}
