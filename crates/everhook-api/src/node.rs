//! The nodes that share this store, as their sessions show them. For operators: an admin key only.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use everhook_core::id::SessionId;
use everhook_core::time::Timestamp;
use everhook_store::lease::SessionRecord;
use everhook_store::query;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::routes::Routes;
use crate::scope::AsAdmin;
use crate::state::Api;

/// How long a closed session is shown.
const CLOSED_SHOWN: Duration = Duration::from_secs(3600);

/// A node, by one of its sessions: one period in which it holds tasks.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeOut {
    /// The session's id.
    #[schema(value_type = String)]
    id: SessionId,
    /// Host and process.
    node: String,
    /// `all`, `api` or `worker`.
    #[schema(value_type = String)]
    role: &'static str,
    /// The binary's version.
    version: String,
    /// `open`; `expired`: silent for longer than its lease, others may close it; `closed`.
    #[schema(value_type = String)]
    state: &'static str,
    /// When the session was opened.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When it was last renewed.
    #[schema(value_type = String, format = DateTime)]
    heartbeat_at: Timestamp,
    /// How many seconds a renewal lasts.
    lease_seconds: u64,
    /// How many tasks it holds. Those of a closed session are about to be taken over.
    held: u32,
    /// When it was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    closed_at: Option<Timestamp>,
}

/// Every open session, and those that were closed within the last hour; oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeListOut {
    data: Vec<NodeOut>,
}

impl NodeOut {
    fn new(session: SessionRecord, now: Timestamp) -> NodeOut {
        let state = match session.closed_at {
            Some(_) => "closed",
            None if now.since(session.renewed_at) > session.lease => "expired",
            None => "open",
        };
        NodeOut {
            id: session.id,
            node: session.node,
            role: session.role.as_str(),
            version: session.version,
            state,
            since: session.started_at,
            heartbeat_at: session.renewed_at,
            lease_seconds: session.lease.as_secs(),
            held: session.held,
            closed_at: session.closed_at,
        }
    }
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list)
}

/// List the nodes that share this store, with an admin key.
#[utoipa::path(
    get, path = "/api/v1/node", operation_id = "v1.node.list", tag = "Node", responses((status = 200, body = NodeListOut))
)]
async fn list(State(api): State<Arc<Api>>, _: AsAdmin) -> Result<Json<NodeListOut>, ApiError> {
    let sessions = api.read(query::Sessions { closed_within: CLOSED_SHOWN }).await?;
    let now = api.now();
    Ok(Json(NodeListOut { data: sessions.into_iter().map(|session| NodeOut::new(session, now)).collect() }))
}
