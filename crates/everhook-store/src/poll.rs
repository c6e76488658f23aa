//! Polling: reads of the messages of a polled endpoint, and the positions of consumers.

use everhook_core::id::EndpointId;
use everhook_core::limits::SCAN_ROWS_MAX;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::poll::PollMark;
use everhook_core::time::Timestamp;

/// The number of neighbours that a search for a time compares.
pub const SEEK_NEIGHBOURS: usize = 1000;
/// The number of messages that get their positions in one transaction.
pub const ORDERED_MAX: usize = 1000;

#[derive(Clone, Debug)]
pub struct PollAsk {
    pub endpoint: EndpointId,
    pub reader: PollReader,
    pub limit: usize,
    pub event_type: Option<Name>,
    pub channel: Option<Name>,
}

/// The reader of a poller.
#[derive(Clone, Debug)]
pub enum PollReader {
    /// A reader that keeps its position itself.
    From(PollMark),
    /// A reader that begins with the messages accepted at or after a time.
    Since(Timestamp),
    /// A reader whose position the store keeps. `confirmed` confirms all messages before it.
    Consumer { name: Name, confirmed: Option<PollMark> },
}

/// The answer to a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    Page(PollPage),
    /// The mark is older than the consumer's last seek.
    OutOfStep,
    /// The poller has as many consumers as it may have.
    TooManyConsumers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollPage {
    pub messages: Vec<Message>,
    /// The mark behind the page.
    pub mark: PollMark,
    /// Whether there are no further messages now.
    pub done: bool,
}

/// A request to move a consumer to the messages accepted at or after a time.
#[derive(Clone, Debug)]
pub struct SeekAsk {
    pub endpoint: EndpointId,
    pub consumer: Name,
    pub after: Timestamp,
}

/// The positions that one read covers: `after` is excluded, `until` included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollRange {
    pub after: i64,
    pub until: i64,
    /// The last position of the poller.
    last: i64,
}

impl PollRange {
    /// Returns the range of a read that begins after `after`. `bounds` are the first position that is not pruned and
    /// the last position of the poller.
    pub fn new(after: i64, bounds: Option<(Option<i64>, i64)>) -> PollRange {
        let (first, last) = bounds.unwrap_or((None, 0));
        // Pruned positions are skipped, so that a late reader does not scan through them.
        let after = after.max(first.map_or(last, |first| first - 1)).min(last);
        let scan = i64::try_from(SCAN_ROWS_MAX).unwrap_or(i64::MAX);
        PollRange { after, until: after.saturating_add(scan).min(last), last }
    }

    /// Makes a page of the rows of this range. `is_cut` means that the range has more rows.
    pub fn page(self, rows: Vec<(i64, Message)>, is_cut: bool, generation: i64) -> PollPage {
        let last_row = rows.last().map(|(position, _)| *position);
        let position = if is_cut { last_row.unwrap_or(self.after) } else { self.until };
        let messages = rows.into_iter().map(|(_, message)| message).collect();
        PollPage { messages, mark: PollMark { position, generation }, done: position >= self.last }
    }
}

/// Returns the position where a reader begins that asks for a time. `near` is the first position at that time.
pub fn since(near: Option<i64>, bounds: Option<(Option<i64>, i64)>) -> i64 {
    near.map_or_else(|| bounds.map_or(0, |(_, last)| last), |first| first - 1)
}
