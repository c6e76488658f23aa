//! An endpoint: a URL with its filters, secret and policy.

use std::collections::BTreeMap;

use crate::id::{ApplicationId, EndpointId};
use crate::name::{Metadata, Name};
use crate::signing::SigningKeys;
use crate::task::stored_as;
use crate::time::Timestamp;

/// Whether an endpoint takes deliveries, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It does.
    Enabled,
    /// Someone switched it off; its open deliveries are held.
    Disabled,
    /// The receiver answered 410; its open deliveries are held.
    Gone,
}

stored_as!(EndpointState { Enabled = 0, Disabled = 1, Gone = 2 });

/// A URL with its filters, secret and policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id, which is also its lane.
    pub id: EndpointId,
    /// The application it belongs to.
    pub application: ApplicationId,
    /// The user's own id for it, unique in the application.
    pub uid: Option<Name>,
    /// Where deliveries go.
    pub url: String,
    /// A text for people.
    pub description: String,
    /// Whether it takes deliveries.
    pub state: EndpointState,
    /// The event types it wants; none means all.
    pub event_types: Option<Vec<Name>>,
    /// The channels it listens to; none means all.
    pub channels: Option<Vec<Name>>,
    /// Sent along with every delivery.
    pub headers: BTreeMap<String, String>,
    /// Deliveries per second it wants; kept and shown.
    pub throttle_rate: Option<u16>,
    /// Never interpreted.
    pub metadata: Metadata,
    /// A number of the user's; kept and shown.
    pub version: u16,
    /// What its deliveries are signed with.
    pub keys: SigningKeys,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// One more with every change: what a concurrent change is told apart by.
    pub revision: i64,
}
