//! Alerts as rows: rule and state in `spec`, because the evaluation reads both, and the history of pages in `info`.

use everhook_core::alert::decision::AlertState;
use everhook_core::alert::page::AlertPage;
use everhook_core::alert::{Alert, AlertRule};
use everhook_core::id::AlertId;
use everhook_core::resource::ResourceKind;
use serde::{Deserialize, Serialize};

use crate::resource::Parent;
use crate::resource::encoding::{Columns, text};
use crate::sql::rows::{ResourceRow, json};

#[derive(Serialize, Deserialize)]
struct AlertSpec {
    rule: AlertRule,
    state: AlertState,
}

#[derive(Serialize, Deserialize)]
struct AlertInfo {
    #[serde(default)]
    pages: Vec<AlertPage>,
}

pub(super) fn columns(alert: &Alert) -> Columns {
    Columns {
        kind: ResourceKind::Alert,
        parent: Parent::NONE,
        id: alert.id.0,
        name: Some(alert.name.clone()),
        state: 0,
        revision: alert.revision,
        spec: json(&AlertSpec { rule: alert.rule.clone(), state: alert.state.clone() }),
        info: json(&AlertInfo { pages: alert.pages.clone() }),
    }
}

pub(super) fn read(row: &ResourceRow) -> Result<Alert, &'static str> {
    let AlertSpec { rule, state } = text(&row.spec, "spec")?;
    let AlertInfo { pages } = text(&row.info, "info")?;
    Ok(Alert {
        id: AlertId(row.id),
        name: row.name.clone().ok_or("name")?,
        rule,
        state,
        pages,
        created_at: row.created_at,
        updated_at: row.updated_at,
        revision: row.revision,
    })
}
