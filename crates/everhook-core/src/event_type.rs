//! Event types: names in the catalogue, with description and schemas.

use crate::name::Name;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    pub name: Name,
    pub description: String,
    /// New endpoints cannot choose an archived type.
    pub archived: bool,
    /// Deprecated types can still be chosen.
    pub deprecated: bool,
    /// JSON Schemas by version, as JSON text.
    pub schemas: Option<String>,
    /// Application tokens without this flag do not see the type.
    pub feature_flag: Option<Name>,
    /// Heading under which lists show the type.
    pub group_name: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Raised by every change; a concurrent change is detected by it.
    pub revision: i64,
}
