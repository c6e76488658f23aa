//! The chat apps of an environment: one record with all of them.

use everhook_core::chat_app::{ChatApp, ChatApps};
use everhook_core::resource::{ResourceKind, chat_apps_id};
use serde::{Deserialize, Serialize};

use super::{Columns, Empty, json, text};
use crate::resource::Parent;
use crate::sql::rows::ResourceRow;

#[derive(Debug, Serialize, Deserialize)]
struct ChatAppsSpec {
    apps: Vec<ChatApp>,
}

pub(super) fn columns(apps: &ChatApps) -> Columns {
    Columns {
        kind: ResourceKind::ChatApps,
        parent: Parent::NONE,
        id: chat_apps_id(),
        name: None,
        state: 0,
        revision: apps.revision,
        spec: json(&ChatAppsSpec { apps: apps.apps.clone() }),
        info: json(&Empty {}),
    }
}

pub(super) fn read(row: &ResourceRow) -> Result<ChatApps, &'static str> {
    let ChatAppsSpec { apps } = text(&row.spec, "spec")?;
    Ok(ChatApps { apps, updated_at: row.updated_at, revision: row.revision })
}
