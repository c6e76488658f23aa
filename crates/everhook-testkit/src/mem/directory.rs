//! Objects that are found without their application.

use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointKey};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, MessageId};
use everhook_core::message::Message;
use everhook_store::catalog::Slice;
use everhook_store::directory::{PlacedEndpoint, PlacedMessage};
use everhook_store::history::MessageFilter;
use everhook_store::piece::Piece;
use everhook_store::resource::Parent;

use crate::mem::tables::Tables;
use crate::mem::{MemStore, resource};

impl MemStore {
    pub(super) fn find_endpoints(&self, environment: EnvironmentId, ids: &[EndpointId]) -> Vec<PlacedEndpoint> {
        let mut found = placed(&self.lock().0, environment);
        found.retain(|known| ids.contains(&known.endpoint.id));
        found
    }

    pub(super) fn all_endpoints(&self, environment: EnvironmentId, slice: &Slice<EndpointKey>) -> Vec<PlacedEndpoint> {
        resource::cut(placed(&self.lock().0, environment), PlacedEndpoint::key, slice)
    }

    /// Returns the messages of applications that are not deleted, without payloads.
    pub(super) fn all_messages(
        &self,
        environment: EnvironmentId,
        filter: &MessageFilter,
    ) -> Piece<PlacedMessage, MessageId> {
        let (tables, _) = self.lock();
        let applications: Vec<Application> = resource::records(&tables, environment, Parent::NONE);
        let of = |application: &Application, key: &(EnvironmentId, ApplicationId, MessageId), message: &Message| {
            let is_listed = (key.0, key.1) == (environment, application.id) && filter.admits(message);
            let message = Message { payload: None, ..message.clone() };
            is_listed.then(|| PlacedMessage { application: application.clone(), message })
        };
        let all = applications
            .iter()
            .flat_map(|application| {
                tables.messages.iter().filter_map(move |(key, message)| of(application, key, message))
            })
            .collect();
        Piece { rows: resource::cut(all, |row: &PlacedMessage| row.message.id, &filter.slice), next: None }
    }

    pub(super) fn application_of(&self, environment: EnvironmentId, message: MessageId) -> Option<ApplicationId> {
        let (tables, _) = self.lock();
        let is_it = |key: &&(EnvironmentId, ApplicationId, MessageId)| (key.0, key.2) == (environment, message);
        tables.messages.keys().find(is_it).map(|key| key.1)
    }
}

fn placed(tables: &Tables, environment: EnvironmentId) -> Vec<PlacedEndpoint> {
    let applications: Vec<Application> = resource::records(tables, environment, Parent::NONE);
    let of = |application: Application| {
        let endpoints: Vec<Endpoint> = resource::records(tables, environment, Parent::of(application.id));
        endpoints.into_iter().map(move |endpoint| PlacedEndpoint { application: application.clone(), endpoint })
    };
    applications.into_iter().flat_map(of).collect()
}
