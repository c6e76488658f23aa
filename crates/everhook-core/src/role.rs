//! Roles of a node: accept, deliver, or both.

use std::fmt;
use std::str::FromStr;

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

    pub const fn as_str(self) -> &'static str {
        match self {
            Role::All => "all",
            Role::Api => "api",
            Role::Worker => "worker",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = BadRole;

    fn from_str(text: &str) -> Result<Role, BadRole> {
        [Role::All, Role::Api, Role::Worker].into_iter().find(|role| role.as_str() == text).ok_or(BadRole)
    }
}

// A session opened by a binary without roles is stored as 0: such a node does everything.
stored_as!(Role { All = 0, Api = 1, Worker = 2 });
