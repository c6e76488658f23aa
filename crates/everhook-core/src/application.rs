//! Environments and applications: the tenants of a server, and the customers of one tenant.

use std::sync::Arc;

use crate::id::{ApplicationId, EnvironmentId, OrgId};
use crate::name::{Metadata, Name};
use crate::policy::{Settings, with_throttle_rate};
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
    /// Deliveries per second of each endpoint, unless a policy has a rate.
    pub throttle_rate: Option<u16>,
    /// The delivery policy of its endpoints, where they have no setting of their own.
    pub policy: Option<Arc<Settings>>,
    pub metadata: Metadata,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Raised by every change of the application or of its endpoints. Caches compare it.
    pub revision: i64,
}

impl Application {
    /// The settings that its endpoints inherit.
    pub fn inherited(&self) -> Option<Arc<Settings>> {
        with_throttle_rate(self.policy.clone(), self.throttle_rate)
    }

    /// Whether a user has paused the application: it takes messages, and all their deliveries wait.
    pub fn is_paused(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.paused == Some(true))
    }
}

/// The delivery policy of an environment, for all of its applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentPolicy {
    pub settings: Settings,
    pub updated_at: Timestamp,
    /// Raised by every change; 0 without settings.
    pub revision: i64,
}
