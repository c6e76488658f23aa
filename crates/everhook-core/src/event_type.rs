//! An event type: a name in the catalogue, with its description and schemas.

use crate::name::Name;
use crate::time::Timestamp;

/// A name in the catalogue of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Unique in the environment.
    pub name: Name,
    /// A text for people.
    pub description: String,
    /// No longer offered to new endpoints.
    pub archived: bool,
    /// Still offered, but on its way out.
    pub deprecated: bool,
    /// JSON Schemas by version, as JSON text.
    pub schemas: Option<String>,
    /// Application tokens without this flag do not see it.
    pub feature_flag: Option<Name>,
    /// The group it is listed under.
    pub group_name: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// One more with every change: what a concurrent change is told apart by.
    pub revision: i64,
}
