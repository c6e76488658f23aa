//! The log of attempts.

use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::time::Timestamp;
use everhook_store::catalog::Order;
use everhook_store::history::{Attempt, AttemptFilter, AttemptResult, AttemptsOf, attempt_bytes};
use everhook_store::piece::{Piece, after, before, skipped};
use everhook_store::{fields, statement};

use crate::error::Fault;
use crate::history::{text, texts};
use crate::store::PostgresStore;

fields! {
    /// The filter of a list of attempts; `of` is a message or an endpoint.
    AttemptSearch<'a> {
        environment: EnvironmentId,
        of: Id,
        above: &'a [u8],
        below: &'a [u8],
        succeeded: Option<bool>,
        status_from: i32,
        status_to: i32,
        before: Timestamp,
        after: Timestamp,
        channel: Option<&'a str>,
        tag: Option<&'a str>,
        event_types: Option<Vec<&'a str>>,
        application: ApplicationId,
        limit: usize,
        order: Order,
    }
}

statement! {
    ScanAttempt<'a> = "scan_attempt" {
        environment: EnvironmentId, endpoint: EndpointId, above: &'a [u8], below: &'a [u8], skipped: usize,
        order: Order,
    } -> Option<Id>;
    ListAttemptEndpoint<'a> = "list_attempt_endpoint" { search: AttemptSearch<'a> } -> Vec<Attempt>;
    ListAttemptMessage<'a> = "list_attempt_message" { search: AttemptSearch<'a>, endpoint: Option<EndpointId> }
        -> Vec<Attempt>;
    ExpungeAttempt = "expunge_attempt" { environment: EnvironmentId, message: MessageId, id: AttemptId };
}

impl PostgresStore {
    pub(crate) async fn expunge_attempt_once(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        id: AttemptId,
    ) -> Result<bool, Fault> {
        let expunged = self.database.write(ExpungeAttempt { environment, message, id }).await?;
        Ok(expunged > 0)
    }

    pub(crate) async fn list_attempts_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &AttemptFilter,
    ) -> Result<Piece<Attempt, AttemptId>, Fault> {
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        // A message has few attempts, which are sorted after the search. A part of them cannot be read in order.
        if let (true, AttemptsOf::Endpoint(endpoint)) = (filter.is_selective(), filter.of) {
            let (above, below) = (range.above.as_slice(), range.below.as_slice());
            let (skipped, order) = (skipped(filter.scan), slice.order);
            scanned = self.database.read(ScanAttempt { environment, endpoint, above, below, skipped, order }).await?;
            range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
        }
        let (status_from, status_to) = filter.statuses();
        let search = AttemptSearch {
            environment,
            of: filter.of.id(),
            above: &range.above,
            below: &range.below,
            succeeded: filter.result.map(|result| result == AttemptResult::Succeeded),
            status_from,
            status_to,
            before: before(filter.before),
            after: after(filter.after),
            channel: text(filter.channel.as_ref()),
            tag: text(filter.tag.as_ref()),
            event_types: texts(&filter.event_types),
            application,
            limit: slice.limit,
            order: slice.order,
        };
        let found = match filter.of {
            AttemptsOf::Message(_, endpoint) => self.database.read(ListAttemptMessage { search, endpoint }).await?,
            AttemptsOf::Endpoint(_) => self.database.read(ListAttemptEndpoint { search }).await?,
        };
        let found = found.into_iter().map(Ok);
        Piece::gather(found, slice.limit, attempt_bytes, |row| row.id, scanned.map(AttemptId))
    }
}
