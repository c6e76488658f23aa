//! Objects that are found without their application.

use everhook_core::endpoint::EndpointKey;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::limits::LOOKUP_APPLICATIONS_MAX;
use everhook_store::catalog::Slice;
use everhook_store::directory::{
    EndpointRange, EndpointSlice, MessageWindow, PlacedEndpoint, PlacedMessage, PlacedSearch,
};
use everhook_store::history::MessageFilter;
use everhook_store::piece::Piece;
use everhook_store::sql::shared::{ENDPOINT_SLICE, MESSAGE_ID, NEWEST_APPLICATION};
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::run;

statement! {
    FindEndpointPlaced = "find_endpoint_placed" { environment: EnvironmentId, id: Id }
        -> Option<PlacedEndpoint>;
    ListEndpointPlaced<'a> = ["list_endpoint_placed", ENDPOINT_SLICE] { slice: EndpointSlice<'a> }
        -> Vec<PlacedEndpoint>;
    ListMessagePlaced<'a> = ["list_message_placed", NEWEST_APPLICATION, MESSAGE_ID] { window: MessageWindow<'a> }
        -> Vec<PlacedMessage>;
    FindMessageApplication = ["find_message_application", NEWEST_APPLICATION] {
        environment: EnvironmentId, message: MessageId, applications_max: usize,
    } -> Option<ApplicationId>;
}

/// Finds endpoints with their applications. Unknown and deleted endpoints are left out.
pub(crate) fn find_endpoints(
    conn: &Connection,
    environment: EnvironmentId,
    ids: &[EndpointId],
) -> Result<Vec<PlacedEndpoint>, Fault> {
    let mut found = Vec::new();
    for id in ids {
        found.extend(run(conn, FindEndpointPlaced { environment, id: id.0 })?);
    }
    Ok(found)
}

pub(crate) fn list_endpoints(
    conn: &Connection,
    environment: EnvironmentId,
    slice: &Slice<EndpointKey>,
) -> Result<Vec<PlacedEndpoint>, Fault> {
    let range = EndpointRange::beyond(slice);
    let list = ListEndpointPlaced { slice: range.slice(environment, slice) };
    run(conn, list)
}

pub(crate) fn find_message(
    conn: &Connection,
    environment: EnvironmentId,
    message: MessageId,
) -> Result<Option<ApplicationId>, Fault> {
    run(conn, FindMessageApplication { environment, message, applications_max: LOOKUP_APPLICATIONS_MAX })
}

pub(crate) fn list_messages(
    conn: &Connection,
    environment: EnvironmentId,
    filter: &MessageFilter,
) -> Result<Piece<PlacedMessage, MessageId>, Fault> {
    let mut search = PlacedSearch::new(filter);
    loop {
        let list = ListMessagePlaced { window: search.window(environment) };
        let rows = run(conn, list)?;
        if let Some(piece) = search.take(rows) {
            return Ok(piece);
        }
    }
}
