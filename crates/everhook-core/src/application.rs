//! An application: a customer of the user; owns endpoints and messages.

use crate::id::{ApplicationId, EnvironmentId, OrgId};
use crate::name::{Metadata, Name};
use crate::time::Timestamp;

/// The outermost tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The number the stores use.
    pub id: EnvironmentId,
    /// The id the API shows.
    pub org: OrgId,
    /// The name operators use.
    pub name: String,
}

/// A customer of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Its id.
    pub id: ApplicationId,
    /// The user's own id for it, unique in the environment.
    pub uid: Option<Name>,
    /// A name for people.
    pub name: String,
    /// Messages per second it may cause; kept and shown.
    pub throttle_rate: Option<u16>,
    /// Never interpreted.
    pub metadata: Metadata,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// One more with every change of the application or of an endpoint of it: what caches compare.
    pub revision: i64,
}
