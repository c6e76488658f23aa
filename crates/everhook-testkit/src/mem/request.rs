//! Answers of requests with an idempotency key.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::REQUEST_CLAIM;
use everhook_core::time::Timestamp;
use everhook_store::dedup::DedupKey;
use everhook_store::request::{RequestAnswer, RequestClaim};

use crate::mem::tables::{RequestRow, Tables};

pub(super) fn claim(
    tables: &mut Tables,
    now: Timestamp,
    environment: EnvironmentId,
    key: &DedupKey,
    holder: Id,
) -> RequestClaim {
    let known = tables.requests.get(&(environment, key.hash)).filter(|row| row.expires_at > now);
    match known {
        Some(row) if row.holder != holder || row.answer.is_some() => {
            let (status, body) = match &row.answer {
                Some(answer) => (Some(answer.status), answer.body.clone()),
                None => (None, None),
            };
            RequestClaim::of_holder(row.body == key.body, status, body)
        }
        _ => {
            let row = RequestRow { holder, body: key.body, answer: None, expires_at: now.plus(REQUEST_CLAIM) };
            tables.requests.insert((environment, key.hash), row);
            RequestClaim::Won
        }
    }
}

pub(super) fn finish(
    tables: &mut Tables,
    now: Timestamp,
    environment: EnvironmentId,
    key: &DedupKey,
    holder: Id,
    answer: Option<RequestAnswer>,
) {
    let place = (environment, key.hash);
    let Some(row) = tables.requests.get_mut(&place) else { return };
    if row.holder != holder || row.answer.is_some() {
        return;
    }
    if answer.is_some() {
        row.answer = answer;
        row.expires_at = now.plus(key.kept);
    } else {
        tables.requests.remove(&place);
    }
}
