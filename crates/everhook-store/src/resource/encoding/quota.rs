//! Quotas: one record for the environment, and one for each application that has limits of its own.

use everhook_core::quota::{Quota, QuotaLimits};
use everhook_core::resource::ResourceKind;
use serde::{Deserialize, Serialize};

use super::{Columns, Empty, json, text};
use crate::resource::Parent;
use crate::sql::rows::ResourceRow;

/// Limits are members of their own: an absent limit would otherwise be kept from the old row.
#[derive(Debug, Serialize, Deserialize)]
struct QuotaSpec {
    #[serde(default)]
    limits: QuotaLimits,
    #[serde(default)]
    each: QuotaLimits,
}

pub(super) fn columns(quota: &Quota) -> Columns {
    Columns {
        kind: ResourceKind::Quota,
        parent: Parent::NONE,
        id: Quota::id(quota.application),
        name: None,
        state: 0,
        revision: quota.revision,
        spec: json(&QuotaSpec { limits: quota.limits.clone(), each: quota.each.clone() }),
        info: json(&Empty {}),
    }
}

pub(super) fn read(row: &ResourceRow) -> Result<Quota, &'static str> {
    let QuotaSpec { limits, each } = text(&row.spec, "spec")?;
    let application = Quota::application_of(row.id);
    Ok(Quota { application, limits, each, updated_at: row.updated_at, revision: row.revision })
}
