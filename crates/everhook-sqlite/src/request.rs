//! Answers of requests with an idempotency key.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::REQUEST_CLAIM;
use everhook_store::dedup::DedupKey;
use everhook_store::request::{RequestAnswer, RequestClaim};
use everhook_store::seal::{answer_place, open_answer};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{ClaimRequest, FindRequest, FinishRequest, ReleaseRequest};

use crate::error::Fault;
use crate::seal;
use crate::sql::run;
use crate::writer::Tx;

pub(crate) fn claim(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    key: &DedupKey,
    holder: Id,
) -> Result<RequestClaim, Fault> {
    let (hash, body) = (&key.hash, &key.body);
    let claim = ClaimRequest { environment, hash, holder, body, claim_us: REQUEST_CLAIM, now: StoreClock::At(tx.now) };
    if run(tx.conn, claim)?.is_some() {
        return Ok(RequestClaim::Won);
    }
    let found = run(tx.conn, FindRequest { environment, hash })?;
    let (body, status, answer) = found.ok_or(Fault::Corrupt { table: "request", column: "hash" })?;
    let answer = open_answer(tx.conn.seal(), answer_place(environment, hash), answer);
    let answer = answer.map_err(seal::corrupt("request"))?;
    Ok(RequestClaim::of_holder(body == key.body, status, answer))
}

pub(crate) fn finish(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    key: &DedupKey,
    holder: Id,
    answer: Option<&RequestAnswer>,
) -> Result<(), Fault> {
    let hash = &key.hash;
    match answer {
        Some(RequestAnswer { status, body }) => {
            let current = seal::current(tx.conn)?;
            let seal_body = |body| tx.conn.seal().seal(current, answer_place(environment, hash), body);
            let sealed = body.as_deref().map(seal_body).transpose().map_err(seal::corrupt("request"))?;
            let (status, answer) = (*status, sealed.as_deref());
            let finish = FinishRequest {
                environment,
                hash,
                holder,
                status,
                answer,
                kept_us: key.kept,
                now: StoreClock::At(tx.now),
            };
            run(tx.conn, finish).map(drop)
        }
        None => run(tx.conn, ReleaseRequest { environment, hash, holder }).map(drop),
    }
}
