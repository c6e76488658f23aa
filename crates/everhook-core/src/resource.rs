//! Resources: configured objects that are created, replaced and deleted as a whole, each under a revision.

use std::sync::LazyLock;

use crate::id::Id;
use crate::name::Name;
use crate::task::stored_as;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceKind {
    Application,
    Endpoint,
    EventType,
    Queue,
    Schedule,
    Integration,
    /// The delivery policy of the environment, at most one.
    EnvironmentPolicy,
    /// The look of the portals of the environment, at most one.
    PortalSettings,
    /// The chat apps of the environment, at most one record.
    ChatApps,
    Alert,
    /// The quota of the environment, or of an application: at most one for each.
    Quota,
}

stored_as!(ResourceKind {
    Application = 0,
    Endpoint = 1,
    EventType = 2,
    Queue = 3,
    Schedule = 4,
    Integration = 5,
    EnvironmentPolicy = 6,
    PortalSettings = 10,
    ChatApps = 12,
    Alert = 11,
    Quota = 13,
});

impl ResourceKind {
    /// Whether the id follows from the name, so that resources of the same name are one resource.
    pub const fn is_named(self) -> bool {
        matches!(self, ResourceKind::EventType) || self.exists_by_default()
    }

    /// Whether the resource exists before its first change, with defaults and revision 0.
    pub const fn exists_by_default(self) -> bool {
        use ResourceKind::{ChatApps, EnvironmentPolicy, PortalSettings, Queue, Quota};
        matches!(self, Queue | EnvironmentPolicy | PortalSettings | ChatApps | Quota)
    }

    /// Whether `spec` contains secrets, so that stores seal it: keys, header values and other credentials of endpoints,
    /// the keys of push targets, and the secrets of chat apps.
    pub const fn has_secrets(self) -> bool {
        matches!(self, ResourceKind::Endpoint | ResourceKind::Queue | ResourceKind::ChatApps)
    }

    /// Whether a deleted resource keeps its row. Old messages show deleted endpoints, and a repeated request returns
    /// the application or integration that it created.
    pub const fn is_kept_when_deleted(self) -> bool {
        matches!(self, ResourceKind::Application | ResourceKind::Endpoint | ResourceKind::Integration)
    }

    pub const fn on_delete(self) -> OnDelete {
        match self {
            ResourceKind::Application => OnDelete::EndApplication,
            ResourceKind::Endpoint => OnDelete::CloseLane,
            ResourceKind::Queue => OnDelete::DeleteLaneGroup,
            ResourceKind::Schedule => OnDelete::DeleteSchedule,
            ResourceKind::EventType
            | ResourceKind::Integration
            | ResourceKind::EnvironmentPolicy
            | ResourceKind::PortalSettings
            | ResourceKind::ChatApps
            | ResourceKind::Alert
            | ResourceKind::Quota => OnDelete::Nothing,
        }
    }
}

/// The rows of other tables that end with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDelete {
    /// The lane group of an application, its endpoints with their lanes, and its integrations.
    EndApplication,
    CloseLane,
    DeleteLaneGroup,
    DeleteSchedule,
    /// There are none.
    Nothing,
}

/// The id of an event type, the same in every environment.
pub fn event_type_id(name: &Name) -> Id {
    Id::derived(&[b"event type", name.as_str().as_bytes()])
}

/// The id of the delivery policy of an environment, the same in every environment.
pub fn environment_policy_id() -> Id {
    // Hot paths ask for it.
    static ID: LazyLock<Id> = LazyLock::new(|| Id::derived(&[b"environment policy"]));
    *ID
}

/// The id of the chat apps of an environment, the same in every environment.
pub fn chat_apps_id() -> Id {
    Id::derived(&[b"chat apps"])
}

/// The id of the portal settings of an environment, the same in every environment.
pub fn portal_settings_id() -> Id {
    Id::derived(&[b"portal settings"])
}

/// The id of the quota of an environment, the same in every environment.
pub fn environment_quota_id() -> Id {
    static ID: LazyLock<Id> = LazyLock::new(|| Id::derived(&[b"environment quota"]));
    *ID
}
