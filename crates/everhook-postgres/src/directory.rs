//! Objects that are found without their application.

use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointKey};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, MessageId};
use everhook_core::limits::LOOKUP_APPLICATIONS_MAX;
use everhook_core::message::Message;
use everhook_store::catalog::{Order, Slice};
use everhook_store::directory::{EndpointRange, PlacedEndpoint, PlacedMessage, PlacedSearch, Window};
use everhook_store::history::MessageFilter;
use everhook_store::piece::Piece;
use everhook_store::sql::rows::ResourceRow;
use everhook_store::statement;

use crate::columns::Keys;
use crate::error::Fault;
use crate::resource::record;
use crate::store::PostgresStore;

statement! {
    FindEndpointPlaced = "find_endpoint_placed" { wanted: Keys } -> Vec<(Endpoint, ResourceRow)>;
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

impl PostgresStore {
    /// Finds endpoints with their applications. Unknown and deleted endpoints are left out.
    pub(crate) async fn find_endpoints_once(
        &self,
        environment: EnvironmentId,
        ids: &[EndpointId],
    ) -> Result<Vec<PlacedEndpoint>, Fault> {
        let wanted = Keys::of(ids.iter().map(|id| (environment, id.0)));
        self.database.read(FindEndpointPlaced { wanted }).await?.into_iter().map(placed).collect()
    }

    pub(crate) async fn list_endpoints_once(
        &self,
        environment: EnvironmentId,
        slice: &Slice<EndpointKey>,
    ) -> Result<Vec<PlacedEndpoint>, Fault> {
        let EndpointRange { above, below } = EndpointRange::beyond(slice);
        let ((above_parent, above), (below_parent, below)) = ((&*above.0, &*above.1), (&*below.0, &*below.1));
        let (limit, order) = (slice.limit, slice.order);
        let list = ListEndpointPlaced { environment, above_parent, above, below_parent, below, limit, order };
        self.database.read(list).await?.into_iter().map(placed).collect()
    }

    pub(crate) async fn find_message_application_once(
        &self,
        environment: EnvironmentId,
        message: MessageId,
    ) -> Result<Option<ApplicationId>, Fault> {
        let applications_max = LOOKUP_APPLICATIONS_MAX;
        self.database.read(FindMessageApplication { environment, message, applications_max }).await
    }

    pub(crate) async fn list_all_messages_once(
        &self,
        environment: EnvironmentId,
        filter: &MessageFilter,
    ) -> Result<Piece<PlacedMessage, MessageId>, Fault> {
        let (mut search, text) = (PlacedSearch::new(filter), filter.text.as_ref().map(|text| text.as_bytes()));
        loop {
            let Window { range, order, limit } = search.window();
            let (above, below, applications_max) = (&*range.above, &*range.below, LOOKUP_APPLICATIONS_MAX);
            let list = ListMessagePlaced { environment, above, below, applications_max, limit, text, order };
            let rows = self.database.read(list).await?.into_iter().map(placed_message).collect::<Result<_, _>>()?;
            if let Some(piece) = search.take(rows) {
                return Ok(piece);
            }
        }
    }
}

fn placed((endpoint, application): (Endpoint, ResourceRow)) -> Result<PlacedEndpoint, Fault> {
    Ok(PlacedEndpoint { application: record::<Application>(&application, None)?, endpoint })
}

fn placed_message((message, application): (Message, ResourceRow)) -> Result<PlacedMessage, Fault> {
    Ok(PlacedMessage { application: record::<Application>(&application, None)?, message })
}
