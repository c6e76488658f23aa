//! Objects that are found without their application.

use everhook_core::endpoint::EndpointKey;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, MessageId};
use everhook_core::limits::LOOKUP_APPLICATIONS_MAX;
use everhook_store::catalog::Slice;
use everhook_store::directory::{
    EndpointRange, EndpointSlice, MessageWindow, PlacedEndpoint, PlacedMessage, PlacedSearch,
};
use everhook_store::history::MessageFilter;
use everhook_store::piece::Piece;
use everhook_store::sql::shared::{ENDPOINT_SLICE, MESSAGE_ID, NEWEST_APPLICATION};
use everhook_store::statement;

use crate::columns::Keys;
use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    FindEndpointPlaced = ["find_endpoint_placed", "resource_by_id"] { wanted: Keys } -> Vec<PlacedEndpoint>;
    ListEndpointPlaced<'a> = ["list_endpoint_placed", ENDPOINT_SLICE] { slice: EndpointSlice<'a> }
        -> Vec<PlacedEndpoint>;
    ListMessagePlaced<'a> = ["list_message_placed", NEWEST_APPLICATION, MESSAGE_ID, "resource_by_id"] {
        window: MessageWindow<'a>,
    } -> Vec<PlacedMessage>;
    FindMessageApplication = ["find_message_application", NEWEST_APPLICATION] {
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
        self.database.read(FindEndpointPlaced { wanted }).await
    }

    pub(crate) async fn list_endpoints_once(
        &self,
        environment: EnvironmentId,
        slice: &Slice<EndpointKey>,
    ) -> Result<Vec<PlacedEndpoint>, Fault> {
        let range = EndpointRange::beyond(slice);
        let list = ListEndpointPlaced { slice: range.slice(environment, slice) };
        self.database.read(list).await
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
        let mut search = PlacedSearch::new(filter);
        loop {
            let list = ListMessagePlaced { window: search.window(environment) };
            let rows = self.database.read(list).await?;
            if let Some(piece) = search.take(rows) {
                return Ok(piece);
            }
        }
    }
}
