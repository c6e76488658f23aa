//! Environments and applications: the tenants of a server, and the customers of one tenant.

use crate::id::{ApplicationId, EnvironmentId, OrgId};
use crate::name::{Metadata, Name};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The short number in every key of the stores.
    pub id: EnvironmentId,
    /// The public id that the API shows.
    pub org: OrgId,
    pub name: String,
}

/// A customer of one environment; owns endpoints and messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    pub id: ApplicationId,
    /// The user's own id, unique in the environment.
    pub uid: Option<Name>,
    pub name: String,
    /// Messages per second. Stored and shown, not enforced.
    pub throttle_rate: Option<u16>,
    pub metadata: Metadata,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Raised by every change of the application or of its endpoints. Caches compare it.
    pub revision: i64,
}
