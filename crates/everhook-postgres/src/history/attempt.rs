//! The log of attempts.

use everhook_core::id::{AttemptId, EndpointId, EnvironmentId, Id, MessageId};
use everhook_store::history::{Attempt, AttemptSearch, AttemptsOf, attempt_bytes};
use everhook_store::piece::Piece;
use everhook_store::query::Attempts;
use everhook_store::sql::shared::IdScan;
use everhook_store::statement;

use crate::error::Fault;
use crate::history::texts;
use crate::store::PostgresStore;

statement! {
    ScanAttempt<'a> = "scan_attempt" { environment: EnvironmentId, endpoint: EndpointId, scan: IdScan<'a> }
        -> Option<Id>;
    ListAttemptEndpoint<'a> = ["list_attempt_endpoint", "attempt_found", "attempt_page"] {
        search: AttemptSearch<'a>, event_types: Option<Vec<&'a str>>,
    } -> Vec<Attempt>;
    ListAttemptMessage<'a> = ["list_attempt_message", "attempt_found", "attempt_page"] {
        search: AttemptSearch<'a>, event_types: Option<Vec<&'a str>>, endpoint: Option<EndpointId>,
    } -> Vec<Attempt>;
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

    pub(crate) async fn list_attempts_once(&self, list: &Attempts) -> Result<Piece<Attempt, AttemptId>, Fault> {
        let Attempts { scope, filter } = list;
        let environment = scope.environment;
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        // A message has few attempts, which are sorted after the search. A part of them cannot be read in order.
        if let (true, AttemptsOf::Endpoint(endpoint)) = (filter.is_selective(), filter.of) {
            let scan = range.scan(filter.scan, slice.order);
            scanned = self.database.read(ScanAttempt { environment, endpoint, scan }).await?;
            range = range.until(scanned, slice.order);
        }
        let (search, event_types) = (filter.search(*scope, &range), texts(&filter.event_types));
        let found = match filter.of {
            AttemptsOf::Message(_, endpoint) => {
                self.database.read(ListAttemptMessage { search, event_types, endpoint }).await?
            }
            AttemptsOf::Endpoint(_) => self.database.read(ListAttemptEndpoint { search, event_types }).await?,
        };
        let found = found.into_iter().map(Ok);
        Piece::gather(found, slice.limit, attempt_bytes, |row| row.id, scanned.map(AttemptId))
    }
}
