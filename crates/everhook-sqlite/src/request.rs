//! Answers of requests with an idempotency key.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::REQUEST_CLAIM;
use everhook_store::dedup::DedupKey;
use everhook_store::request::{RequestClaim, RequestEnd};
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

pub(crate) fn finish(tx: &Tx<'_>, environment: EnvironmentId, end: &RequestEnd) -> Result<(), Fault> {
    let RequestEnd { key, holder, answer } = end;
    let (hash, holder) = (&key.hash, *holder);
    match answer {
        Some(answer) => {
            let place = answer_place(environment, hash);
            let sealed = answer.sealed_body(tx.conn.seal(), seal::current(tx.conn)?, place);
            let sealed = sealed.map_err(seal::corrupt("request"))?;
            let (status, answer, kept_us, now) = (answer.status, sealed.as_deref(), key.kept, StoreClock::At(tx.now));
            run(tx.conn, FinishRequest { environment, hash, holder, status, answer, kept_us, now }).map(drop)
        }
        None => run(tx.conn, ReleaseRequest { environment, hash, holder }).map(drop),
    }
}
