//! Objects that are found without their application: endpoints and messages of a whole environment.

use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointKey};
use everhook_core::id::MessageId;
use everhook_core::limits::{PLACED_MESSAGES_MAX, PLACED_WINDOWS_MAX};
use everhook_core::message::Message;

use crate::catalog::{Order, Slice};
use crate::history::MessageFilter;
use crate::piece::{IdRange, Piece};

/// An endpoint with its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedEndpoint {
    pub application: Application,
    pub endpoint: Endpoint,
}

impl PlacedEndpoint {
    pub fn key(&self) -> EndpointKey {
        EndpointKey { application: self.application.id, endpoint: self.endpoint.id }
    }
}

/// The exclusive bounds of a slice of endpoints: a parent and an id each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRange {
    pub above: (Vec<u8>, Vec<u8>),
    pub below: (Vec<u8>, Vec<u8>),
}

impl EndpointRange {
    pub fn beyond(slice: &Slice<EndpointKey>) -> EndpointRange {
        let IdRange { above, below } = IdRange::beyond(None, Order::Ascending);
        let (mut above, mut below) = ((above.clone(), above), (below.clone(), below));
        if let Some(EndpointKey { application, endpoint }) = slice.after {
            let key = (application.as_bytes().to_vec(), endpoint.as_bytes().to_vec());
            match slice.order {
                Order::Ascending => above = key,
                Order::Descending => below = key,
            }
        }
        EndpointRange { above, below }
    }
}

/// A message with its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedMessage {
    pub application: Application,
    /// Without its payload.
    pub message: Message,
}

/// A list of the messages of all applications, window by window. A store reads a window without the filter: no index
/// finds the messages of all applications by type, tag or text. The rows of a page are bounded, so a page can be short.
#[derive(Debug)]
pub struct PlacedSearch<'a> {
    filter: &'a MessageFilter,
    range: IdRange,
    rows: Vec<PlacedMessage>,
    windows: usize,
}

/// The next rows to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub range: IdRange,
    pub order: Order,
    pub limit: usize,
}

impl<'a> PlacedSearch<'a> {
    pub fn new(filter: &'a MessageFilter) -> PlacedSearch<'a> {
        PlacedSearch { filter, range: filter.range(), rows: Vec::new(), windows: 0 }
    }

    pub fn window(&self) -> Window {
        // Without a filter, every row is part of the page.
        let limit = if self.filter.is_selective() { PLACED_MESSAGES_MAX } else { self.filter.slice.limit };
        Window { range: self.range.clone(), order: self.filter.slice.order, limit }
    }

    /// Takes the rows of a window, and returns the piece when it is complete.
    pub fn take(&mut self, read: Vec<PlacedMessage>) -> Option<Piece<PlacedMessage, MessageId>> {
        let (limit, order) = (self.filter.slice.limit, self.filter.slice.order);
        let is_end = read.len() < self.window().limit;
        let last = read.last().map(|row| row.message.id);
        self.windows += 1;
        let found = read.into_iter().filter(|row| self.filter.admits(&row.message));
        self.rows.extend(found.map(|row| PlacedMessage { message: Message { payload: None, ..row.message }, ..row }));
        let is_full = self.rows.len() >= limit;
        self.rows.truncate(limit);
        if is_full || is_end || self.windows == PLACED_WINDOWS_MAX {
            let next = last.filter(|_| !is_full && !is_end);
            return Some(Piece { rows: std::mem::take(&mut self.rows), next });
        }
        let beyond = IdRange::beyond(last.map(|id| id.0), order);
        self.range = beyond.between(self.filter.after, self.filter.before, MessageFilter::SKEW);
        None
    }
}
