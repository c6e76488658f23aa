//! The log of attempts.

use everhook_core::id::{AttemptId, EndpointId, EnvironmentId, Id, MessageId};
use everhook_store::history::{Attempt, AttemptSearch, AttemptsOf, attempt_bytes};
use everhook_store::piece::Piece;
use everhook_store::query::Attempts;
use everhook_store::sql::rows::names;
use everhook_store::sql::shared::IdScan;
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::{run, stream};
use crate::writer::Tx;

statement! {
    ListAttemptEndpoint<'a> = ["list_attempt_endpoint", "attempt_found", "attempt_page"] {
        search: AttemptSearch<'a>, event_types: Option<String>,
    } -> Vec<Attempt>;
    ListAttemptMessage<'a> = ["list_attempt_message", "attempt_found", "attempt_page"] {
        search: AttemptSearch<'a>, event_types: Option<String>, endpoint: Option<EndpointId>,
    } -> Vec<Attempt>;
    ScanAttempt<'a> = "scan_attempt" { environment: EnvironmentId, endpoint: EndpointId, scan: IdScan<'a> }
        -> Option<Id>;
    ExpungeAttempt = "expunge_attempt" { environment: EnvironmentId, message: MessageId, id: AttemptId };
}

pub(crate) fn list(conn: &Connection, list: &Attempts) -> Result<Piece<Attempt, AttemptId>, Fault> {
    let Attempts { scope, filter } = list;
    let environment = scope.environment;
    let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
    // A message has few attempts, which are sorted after the search. A part of them cannot be read in order.
    if let (true, AttemptsOf::Endpoint(endpoint)) = (filter.is_selective(), filter.of) {
        let scan = range.scan(filter.scan, slice.order);
        scanned = run(conn, ScanAttempt { environment, endpoint, scan })?;
        range = range.until(scanned, slice.order);
    }
    let (search, event_types) = (filter.search(*scope, &range), names(&filter.event_types));
    let gather = |rows: &mut dyn Iterator<Item = Result<Attempt, Fault>>| {
        Piece::gather(rows, slice.limit, attempt_bytes, |row| row.id, scanned.map(AttemptId))
    };
    match filter.of {
        AttemptsOf::Message(_, endpoint) => stream(conn, ListAttemptMessage { search, event_types, endpoint }, gather),
        AttemptsOf::Endpoint(_) => stream(conn, ListAttemptEndpoint { search, event_types }, gather),
    }
}

pub(crate) fn expunge(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    message: MessageId,
    id: AttemptId,
) -> Result<bool, Fault> {
    Ok(run(tx.conn, ExpungeAttempt { environment, message, id })? == 1)
}
