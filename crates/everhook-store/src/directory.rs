//! Objects that are found without their application: endpoints and messages of a whole environment.

use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointKey};

use crate::catalog::{Order, Slice};
use crate::piece::IdRange;

/// An endpoint with its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedEndpoint {
    pub application: Application,
    pub endpoint: Endpoint,
}

impl PlacedEndpoint {
    pub fn key(&self) -> EndpointKey {
        EndpointKey { application: self.application.id, endpoint: self.endpoint.id }
    }
}

/// The exclusive bounds of a slice of endpoints: a parent and an id each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRange {
    pub above: (Vec<u8>, Vec<u8>),
    pub below: (Vec<u8>, Vec<u8>),
}

impl EndpointRange {
    pub fn beyond(slice: &Slice<EndpointKey>) -> EndpointRange {
        let IdRange { above, below } = IdRange::beyond(None, Order::Ascending);
        let (mut above, mut below) = ((above.clone(), above), (below.clone(), below));
        if let Some(EndpointKey { application, endpoint }) = slice.after {
            let key = (application.as_bytes().to_vec(), endpoint.as_bytes().to_vec());
            match slice.order {
                Order::Ascending => above = key,
                Order::Descending => below = key,
            }
        }
        EndpointRange { above, below }
    }
}
