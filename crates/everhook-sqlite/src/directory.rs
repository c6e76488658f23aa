//! Objects that are found without their application.

use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointKey};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::limits::LOOKUP_APPLICATIONS_MAX;
use everhook_store::catalog::{Order, Slice};
use everhook_store::directory::{EndpointRange, PlacedEndpoint};
use everhook_store::sql::rows::ResourceRow;
use everhook_store::statement;
use rusqlite::Connection;

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

fn placed((endpoint, application): (Endpoint, ResourceRow)) -> Result<PlacedEndpoint, Fault> {
    Ok(PlacedEndpoint { application: record::<Application>(&application, None)?, endpoint })
}
