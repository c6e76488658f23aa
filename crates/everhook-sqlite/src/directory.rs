//! Objects that are found without their application.

use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointKey};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::limits::LOOKUP_APPLICATIONS_MAX;
use everhook_core::message::Message;
use everhook_store::catalog::{Order, Slice};
use everhook_store::directory::{EndpointRange, PlacedEndpoint, PlacedMessage, PlacedSearch, Window};
use everhook_store::history::MessageFilter;
use everhook_store::piece::Piece;
use everhook_store::sql::rows::ResourceRow;
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::resource::record;
use crate::sql::run;

statement! {
    FindEndpointPlaced = "find_endpoint_placed" { environment: EnvironmentId, id: Id }
        -> Option<(Endpoint, ResourceRow)>;
    ListEndpointPlaced<'a> = "list_endpoint_placed" {
        environment: EnvironmentId, above_parent: &'a [u8], above: &'a [u8], below_parent: &'a [u8], below: &'a [u8],
        limit: usize, order: Order,
    } -> Vec<(Endpoint, ResourceRow)>;
    ListMessagePlaced<'a> = "list_message_placed" {
        environment: EnvironmentId, above: &'a [u8], below: &'a [u8], applications_max: usize, limit: usize,
        text: Option<&'a [u8]>, order: Order,
    } -> Vec<(Message, ResourceRow)>;
    FindMessageApplication = "find_message_application" {
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
    found.into_iter().map(placed).collect()
}

pub(crate) fn list_endpoints(
    conn: &Connection,
    environment: EnvironmentId,
    slice: &Slice<EndpointKey>,
) -> Result<Vec<PlacedEndpoint>, Fault> {
    let EndpointRange { above, below } = EndpointRange::beyond(slice);
    let ((above_parent, above), (below_parent, below)) = ((&above.0, &above.1), (&below.0, &below.1));
    let (limit, order) = (slice.limit, slice.order);
    let list = ListEndpointPlaced { environment, above_parent, above, below_parent, below, limit, order };
    run(conn, list)?.into_iter().map(placed).collect()
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
    let (mut search, text) = (PlacedSearch::new(filter), filter.text.as_ref().map(|text| text.as_bytes()));
    loop {
        let Window { range, order, limit } = search.window();
        let (above, below, applications_max) = (&*range.above, &*range.below, LOOKUP_APPLICATIONS_MAX);
        let list = ListMessagePlaced { environment, above, below, applications_max, limit, text, order };
        let rows = run(conn, list)?.into_iter().map(placed_message).collect::<Result<_, _>>()?;
        if let Some(piece) = search.take(rows) {
            return Ok(piece);
        }
    }
}

fn placed((endpoint, application): (Endpoint, ResourceRow)) -> Result<PlacedEndpoint, Fault> {
    Ok(PlacedEndpoint { application: record::<Application>(&application, None)?, endpoint })
}

fn placed_message((message, application): (Message, ResourceRow)) -> Result<PlacedMessage, Fault> {
    Ok(PlacedMessage { application: record::<Application>(&application, None)?, message })
}
