//! Roles of a node: accept, deliver, or both.

use crate::name::named_as;
use crate::task::stored_as;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    All,
    /// Serves the API. Other nodes deliver the accepted messages.
    Api,
    Worker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be all, api or worker")]
pub struct BadRole;

impl Role {
    /// Whether the node serves the API.
    pub const fn accepts(self) -> bool {
        matches!(self, Role::All | Role::Api)
    }

    /// Whether the node leases and runs tasks.
    pub const fn delivers(self) -> bool {
        matches!(self, Role::All | Role::Worker)
    }
}

named_as!(Role, BadRole { All = "all", Api = "api", Worker = "worker" });
// A session opened by a binary without roles is stored as 0: such a node does everything.
stored_as!(Role { All = 0, Api = 1, Worker = 2 });
