//! The nodes that share this store, listed by their sessions. The route is for operators and needs an admin key.

use std::time::Duration;

use axum::Json;
use everhook_core::id::SessionId;
use everhook_core::time::Timestamp;
use everhook_store::lease::SessionRecord;
use everhook_store::query;
use serde::Serialize;
use utoipa::ToSchema;

use crate::routes::{Answer, Routes};
use crate::scope::AsAdmin;

/// Time for which closed sessions are listed.
const CLOSED_SHOWN: Duration = Duration::from_secs(3600);

/// A session of a node: a period in which the node holds tasks.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeOut {
    /// The session's id.
    #[schema(value_type = String)]
    id: SessionId,
    /// The host and the process of the node.
    node: String,
    /// The role of the node: `all`, `api` or `worker`.
    #[schema(value_type = String)]
    role: &'static str,
    /// The binary's version.
    version: String,
    /// `open`, `expired` or `closed`. An expired session was not renewed within its lease; other nodes may close it.
    #[schema(value_type = String)]
    state: &'static str,
    /// The start of the session.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// The latest renewal of the session.
    #[schema(value_type = String, format = DateTime)]
    heartbeat_at: Timestamp,
    /// Seconds until a session without renewal expires.
    lease_seconds: u64,
    /// The number of tasks that the session holds. Other nodes take over the tasks of a closed session.
    held: u32,
    /// The end of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    closed_at: Option<Timestamp>,
}

/// All open sessions, and the sessions that were closed within the last hour. Oldest first.
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

/// List the nodes that share this store. Requires an admin key.
#[utoipa::path(
    get, path = "/api/v1/node", operation_id = "v1.node.list", tag = "Node", responses((status = 200, body = NodeListOut))
)]
async fn list(AsAdmin { api }: AsAdmin) -> Answer<NodeListOut> {
    let sessions = api.read(query::Sessions { closed_within: CLOSED_SHOWN }).await?;
    let now = api.now();
    Ok(Json(NodeListOut { data: sessions.into_iter().map(|session| NodeOut::new(session, now)).collect() }))
}
