//! The audit log: writes an entry before and after each audited operation, lists the entries, and verifies their chain.
//!
//! `access` lists which routes are audited; [`Audited`] wraps their handlers. The entry before the operation is
//! committed first, so that no change escapes the log: if the entry cannot be written, the operation does not begin.

use std::cell::Cell;
use std::sync::Arc;

use aws_lc_rs::digest;
use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use everhook_core::audit::{AuditEntry, AuditFacts, AuditHash, AuditLink, AuditPhase};
use everhook_core::id::{Id, KeyId};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_store::audit::AuditFilter;
use everhook_store::catalog::{Order, Slice};
use everhook_store::query;
use everhook_store::resource::Resource;
use http::HeaderMap;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use tracing::error;
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::input;
use crate::limits::{AUDIT_TEXT_BYTES_MAX, AUDIT_VERIFY_PIECE, AUDIT_VERIFY_ROUNDS};
use crate::page::{Cursor, Listing, OrderParams, Page, PageParams};
use crate::query::{self as parameters, Query};
use crate::routes::Answer;
use crate::routes::{Answering, AnyHandler, Routes};
use crate::scope::InEnvironment;
use crate::state::Api;

/// The person on whose behalf the caller acts.
const PRINCIPAL_HEADER: &str = "everhook-principal";
/// The reason for the operation.
const REASON_HEADER: &str = "everhook-reason";

tokio::task_local! {
    /// The hashes of the object that the running operation changes.
    static CHANGE: Cell<ChangeHashes>;
}

#[derive(Clone, Copy, Default)]
struct ChangeHashes {
    before: Option<AuditHash>,
    after: Option<AuditHash>,
}

/// A handler whose calls are logged.
#[derive(Clone)]
pub(crate) struct Audited {
    pub(crate) handler: AnyHandler,
    /// The id of the operation.
    pub(crate) action: Arc<str>,
}

impl Handler<(), Arc<Api>> for Audited {
    type Future = Answering;

    fn call(self, request: Request, api: Arc<Api>) -> Answering {
        Box::pin(async move { self.run(request, api).await.unwrap_or_else(IntoResponse::into_response) })
    }
}

impl Audited {
    async fn run(self, request: Request, api: Arc<Api>) -> Result<Response, ApiError> {
        let (mut parts, body) = request.into_parts();
        // Refused callers leave no entry: they cannot fill the log.
        let caller = Caller::from_request_parts(&mut parts, &api).await?;
        let bytes = input::read_in_time(&parts, body).await?;
        let scope = caller.scope();
        let mut facts = facts(&parts, &caller, api.new_id(), &self.action)?;
        facts.request = (!bytes.is_empty()).then(|| hash(&[&bytes]));
        api.node.append_audit(scope, facts.clone()).await?;
        let call = self.handler.call(Request::from_parts(parts, Body::from(bytes)), Arc::clone(&api));
        let (answer, hashes) = CHANGE
            .scope(Cell::default(), async {
                let answer = call.await;
                (answer, CHANGE.with(Cell::get))
            })
            .await;
        let status = Some(answer.status().as_u16());
        let ended =
            AuditFacts { phase: AuditPhase::Ended, status, before: hashes.before, after: hashes.after, ..facts };
        if let Err(error) = api.node.append_audit(scope, ended).await {
            // The operation has happened and its beginning is logged, so the answer stays true.
            error!(error = &error as &dyn std::error::Error, "could not log the end of {}", self.action);
        }
        Ok(answer)
    }
}

/// Notes the object that the running operation is about to change, or has changed.
pub(crate) fn note(scope: Scope, before: Option<&Resource>, after: Option<&Resource>) {
    let hash = |resource: &Resource| {
        let columns = resource.columns(scope.environment);
        let name = columns.name.as_ref().map_or("", |name| name.as_str());
        hash(&[name.as_bytes(), &columns.state.to_be_bytes(), columns.spec.as_bytes(), columns.info.as_bytes()])
    };
    // Operations that are not audited have no place for the note.
    let _ = CHANGE.try_with(|change| {
        let known = change.get();
        change.set(ChangeHashes { before: before.map(hash).or(known.before), after: after.map(hash) });
    });
}

fn hash(parts: &[&[u8]]) -> AuditHash {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn facts(parts: &Parts, caller: &Caller, operation: Id, action: &str) -> Result<AuditFacts, ApiError> {
    Ok(AuditFacts {
        operation,
        phase: AuditPhase::Begun,
        actor: caller.actor.name.to_string(),
        key: caller.actor.key,
        principal: header(&parts.headers, PRINCIPAL_HEADER)?,
        action: action.to_owned(),
        object: object(parts.uri.path()),
        reason: header(&parts.headers, REASON_HEADER)?,
        status: None,
        request: None,
        before: None,
        after: None,
    })
}

/// The path without the beginning that all routes have.
fn object(path: &str) -> String {
    let path = path.strip_prefix("/api/v1").unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    path.chars().take(AUDIT_TEXT_BYTES_MAX).collect()
}

fn header(headers: &HeaderMap, name: &'static str) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).ok();
    let text = text.filter(|text| text.len() <= AUDIT_TEXT_BYTES_MAX && !text.chars().any(char::is_control));
    match text {
        Some(text) => Ok((!text.is_empty()).then(|| text.to_owned())),
        None => Err(ApiError::invalid(
            ["header", name],
            format!("must be UTF-8 text of at most {AUDIT_TEXT_BYTES_MAX} bytes"),
        )),
    }
}

/// An entry of the audit log. An operation has two: one before it begins, and one when it has ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditEntryOut {
    /// The position in the log of the environment, from 1 without gaps.
    seq: i64,
    /// The time of the entry.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The same for both entries of an operation.
    operation: String,
    /// `begun` or `ended`.
    #[schema(value_type = String)]
    phase: &'static str,
    /// The name of the key, or a description of the token.
    actor: String,
    /// The id of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    key_id: Option<KeyId>,
    /// The person on whose behalf the caller acted, from the header `everhook-principal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    /// The id of the API operation.
    #[schema(example = "v1.endpoint.update")]
    action: String,
    /// The path of the object.
    #[schema(example = "/queue/email/pause")]
    object: String,
    /// The reason, from the header `everhook-reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The HTTP status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// SHA-256 of the body of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_hash: Option<String>,
    /// SHA-256 of the stored object before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_hash: Option<String>,
    /// SHA-256 of the stored object after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_hash: Option<String>,
    /// SHA-256 of this entry and of the hash before it.
    hash: String,
}

/// The result of a check of the chain.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditVerifyOut {
    /// Whether every checked entry follows the one before it.
    valid: bool,
    /// The number of checked entries.
    checked: u64,
    /// The position of the last valid entry.
    seq: i64,
    /// The hash of the last valid entry. Note it elsewhere, to detect a log that was cut off later.
    hash: String,
    /// The problem of the next entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Whether the whole log was checked. If not, continue with `after` set to `seq`.
    done: bool,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    /// Entries of the key with this name.
    #[serde(deserialize_with = "parameters::one")]
    actor: Option<String>,
    /// Entries of this operation, such as `v1.queue.pause`.
    #[serde(deserialize_with = "parameters::one")]
    action: Option<String>,
    /// Entries of objects whose path starts with this text, such as `/queue/email`.
    #[serde(deserialize_with = "parameters::one")]
    object: Option<String>,
    /// Entries at this time or later.
    #[serde(deserialize_with = "parameters::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Entries before this time.
    #[serde(deserialize_with = "parameters::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditVerifyParams {
    /// The position of the entry after which the check begins. Default: the beginning of the log.
    #[serde(deserialize_with = "parameters::one")]
    #[param(value_type = Option<i64>, minimum = 0)]
    after: Option<i64>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list).add(verify, __path_verify)
}

/// List the entries of the audit log, newest first.
#[utoipa::path(
    get, path = "/api/v1/audit", operation_id = "v1.audit.list", tag = "Audit",
    params(AuditParams, PageParams, OrderParams), responses((status = 200, body = Page<AuditEntryOut>))
)]
async fn list(
    InEnvironment { api, scope }: InEnvironment,
    Query(wanted): Query<AuditParams>,
    listing: Listing,
) -> Answer<Page<AuditEntryOut>> {
    let cursor: Cursor<i64> = listing.cursor(Order::Descending)?;
    let AuditParams { actor, action, object, since, until } = wanted;
    for (name, text) in [("actor", &actor), ("action", &action), ("object", &object)] {
        if text.as_ref().is_some_and(|text| text.chars().any(char::is_control)) {
            return Err(ApiError::in_query(at(name).breaks("must not contain control characters")));
        }
    }
    let filter = AuditFilter { actor, action, object, since, until };
    let rows = api.read(query::Audit { scope, filter, slice: cursor.slice() }).await?;
    Ok(Json(cursor.page(rows, |row| row.seq, AuditEntryOut::from)))
}

/// Check the chain of the audit log. The answer names the first entry that was changed or is missing.
#[utoipa::path(
    get, path = "/api/v1/audit/verify", operation_id = "v1.audit.verify", tag = "Audit", params(AuditVerifyParams),
    responses((status = 200, body = AuditVerifyOut))
)]
async fn verify(
    InEnvironment { api, scope }: InEnvironment,
    Query(AuditVerifyParams { after }): Query<AuditVerifyParams>,
) -> Answer<AuditVerifyOut> {
    let mut link = match after {
        None | Some(0) => AuditLink::START,
        Some(seq) => match read(&api, scope, seq.saturating_sub(1), 1).await?.first() {
            Some(entry) if entry.seq == seq => AuditLink { seq, hash: entry.hash },
            _ => return Err(ApiError::not_found(format_args!("entry {seq} of the audit log"))),
        },
    };
    let mut checked = 0;
    for _ in 0..AUDIT_VERIFY_ROUNDS {
        let entries = read(&api, scope, link.seq, AUDIT_VERIFY_PIECE).await?;
        for entry in &entries {
            match link.follow(scope.environment, entry) {
                Ok(next) => link = next,
                Err(broken) => return Ok(Json(AuditVerifyOut::new(link, checked, Some(broken.to_string()), true))),
            }
            checked += 1;
        }
        if entries.len() < AUDIT_VERIFY_PIECE {
            return Ok(Json(AuditVerifyOut::new(link, checked, None, true)));
        }
    }
    Ok(Json(AuditVerifyOut::new(link, checked, None, false)))
}

/// Reads the entries after a position, in their order.
async fn read(api: &Api, scope: Scope, after: i64, limit: usize) -> Result<Vec<AuditEntry>, ApiError> {
    let slice = Slice { after: Some(after), order: Order::Ascending, limit };
    let query = query::Audit { scope, filter: AuditFilter::default(), slice };
    Ok(api.read(query).await?)
}

impl AuditVerifyOut {
    fn new(link: AuditLink, checked: u64, problem: Option<String>, done: bool) -> AuditVerifyOut {
        AuditVerifyOut { valid: problem.is_none(), checked, seq: link.seq, hash: hex(&link.hash), problem, done }
    }
}

impl From<AuditEntry> for AuditEntryOut {
    fn from(entry: AuditEntry) -> AuditEntryOut {
        let AuditEntry { seq, at, facts, hash } = entry;
        let shown = |hash: Option<AuditHash>| hash.as_ref().map(hex);
        AuditEntryOut {
            seq,
            at,
            operation: facts.operation.to_string(),
            phase: facts.phase.name(),
            actor: facts.actor,
            key_id: facts.key,
            principal: facts.principal,
            action: facts.action,
            object: facts.object,
            reason: facts.reason,
            status: facts.status,
            request_hash: shown(facts.request),
            before_hash: shown(facts.before),
            after_hash: shown(facts.after),
            hash: hex(&hash),
        }
    }
}

fn hex(hash: &AuditHash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
