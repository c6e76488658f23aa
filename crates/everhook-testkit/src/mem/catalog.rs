//! Applications and endpoints, as far as the lease engine depends on them.

use std::sync::Arc;

use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId};
use everhook_core::time::Timestamp;

use crate::mem::MemStore;
use crate::mem::tables::{EndpointRow, LaneRow, LaneState, Tables};

impl MemStore {
    /// Creates an application.
    pub fn put_application(&self, environment: EnvironmentId, application: ApplicationId) {
        self.lock().0.applications.insert((environment, application));
    }

    /// Creates an endpoint with its lane, or replaces it.
    pub fn put_endpoint(&self, environment: EnvironmentId, endpoint: Endpoint) {
        let (mut tables, _) = self.lock();
        put_endpoint(&mut tables, environment, endpoint);
    }

    pub(super) fn find_endpoint(&self, environment: EnvironmentId, id: EndpointId) -> Option<Endpoint> {
        let (tables, _) = self.lock();
        let row = tables.endpoints.get(&(environment, id)).filter(|row| !row.deleted)?;
        Some(Endpoint::clone(&row.endpoint))
    }

    /// Switches an endpoint off; what is open for it is held.
    pub fn disable_endpoint(&self, environment: EnvironmentId, id: EndpointId) {
        self.set_endpoint_state(environment, id, EndpointState::Disabled);
    }

    /// Switches an endpoint on; what was held for it goes.
    pub fn enable_endpoint(&self, environment: EnvironmentId, id: EndpointId) {
        self.set_endpoint_state(environment, id, EndpointState::Enabled);
    }

    fn set_endpoint_state(&self, environment: EnvironmentId, id: EndpointId, state: EndpointState) {
        let (mut tables, _) = self.lock();
        let known = tables.endpoints.get(&(environment, id)).filter(|row| !row.deleted);
        if let Some(endpoint) = known.map(|row| Endpoint::clone(&row.endpoint)) {
            put_endpoint(&mut tables, environment, Endpoint { state, ..endpoint });
        }
    }

    /// Deletes an endpoint; everything pending for it comes out with the next leases, to be cancelled. False if there is none.
    pub fn delete_endpoint(&self, environment: EnvironmentId, id: EndpointId) -> bool {
        let (mut tables, _) = self.lock();
        delete_endpoint(&mut tables, environment, id)
    }

    /// Deletes an application with its endpoints. False if there is none.
    pub fn delete_application(&self, environment: EnvironmentId, id: ApplicationId) -> bool {
        let (mut tables, _) = self.lock();
        let of = |((env, endpoint), row): (&(EnvironmentId, EndpointId), &EndpointRow)| {
            (*env == environment && row.endpoint.application == id).then_some(*endpoint)
        };
        let endpoints: Vec<_> = tables.endpoints.iter().filter_map(of).collect();
        for endpoint in endpoints {
            delete_endpoint(&mut tables, environment, endpoint);
        }
        tables.applications.remove(&(environment, id))
    }
}

fn put_endpoint(tables: &mut Tables, environment: EnvironmentId, endpoint: Endpoint) {
    let state = if endpoint.state == EndpointState::Enabled { LaneState::Open } else { LaneState::Held };
    let new = LaneRow {
        application: endpoint.application,
        state,
        next_due: Timestamp::NEVER,
        hold_until: Timestamp::default(),
        waiting: false,
    };
    let lane = tables.lanes.entry((environment, endpoint.id.lane())).or_insert(new);
    if lane.state != LaneState::Closing {
        lane.state = state;
    }
    let row = EndpointRow { endpoint: Arc::new(endpoint), deleted: false };
    tables.endpoints.insert((environment, row.endpoint.id), row);
}

fn delete_endpoint(tables: &mut Tables, environment: EnvironmentId, id: EndpointId) -> bool {
    let Some(row) = tables.endpoints.get_mut(&(environment, id)).filter(|row| !row.deleted) else { return false };
    row.deleted = true;
    if let Some(lane) = tables.lane(environment, id.lane()) {
        lane.state = LaneState::Closing;
        // Look at it at once; the lease finds out whether anything is there.
        lane.next_due = Timestamp::default();
    }
    true
}
