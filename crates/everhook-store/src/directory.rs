//! Objects that are found without their application: endpoints and messages of a whole environment.

use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointKey};
use everhook_core::id::{EnvironmentId, MessageId};
use everhook_core::limits::{LOOKUP_APPLICATIONS_MAX, PLACED_MESSAGES_MAX, PLACED_WINDOWS_MAX};
use everhook_core::message::Message;

use crate::catalog::{Order, Slice};
use crate::fields;
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

fields! {
    /// A slice of the endpoints of all applications.
    pub EndpointSlice<'a> {
        environment: EnvironmentId, above_parent: &'a [u8], above: &'a [u8], below_parent: &'a [u8], below: &'a [u8],
        limit: usize, order: Order,
    }

    /// The messages that one window of a search reads, from a bounded number of applications.
    pub MessageWindow<'a> {
        environment: EnvironmentId, above: &'a [u8], below: &'a [u8], applications_max: usize, limit: usize,
        text: Option<&'a [u8]>, order: Order,
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

    pub fn slice(&self, environment: EnvironmentId, slice: &Slice<EndpointKey>) -> EndpointSlice<'_> {
        let EndpointRange { above: (above_parent, above), below: (below_parent, below) } = self;
        let (limit, order) = (slice.limit, slice.order);
        EndpointSlice { environment, above_parent, above, below_parent, below, limit, order }
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

impl<'a> PlacedSearch<'a> {
    pub fn new(filter: &'a MessageFilter) -> PlacedSearch<'a> {
        PlacedSearch { filter, range: filter.range(), rows: Vec::new(), windows: 0 }
    }

    /// Returns the next rows to read.
    pub fn window(&self, environment: EnvironmentId) -> MessageWindow<'_> {
        let IdRange { above, below } = &self.range;
        MessageWindow {
            environment,
            above,
            below,
            applications_max: LOOKUP_APPLICATIONS_MAX,
            limit: self.limit(),
            text: self.filter.text.as_ref().map(|text| text.as_bytes()),
            order: self.filter.slice.order,
        }
    }

    /// Without a filter, every row is part of the page.
    fn limit(&self) -> usize {
        if self.filter.is_selective() { PLACED_MESSAGES_MAX } else { self.filter.slice.limit }
    }

    /// Takes the rows of a window, and returns the piece when it is complete.
    pub fn take(&mut self, read: Vec<PlacedMessage>) -> Option<Piece<PlacedMessage, MessageId>> {
        let (limit, order) = (self.filter.slice.limit, self.filter.slice.order);
        let is_end = read.len() < self.limit();
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
