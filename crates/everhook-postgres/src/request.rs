//! Answers of requests with an idempotency key.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::REQUEST_CLAIM;
use everhook_store::dedup::DedupKey;
use everhook_store::request::{RequestAnswer, RequestClaim};
use everhook_store::seal::{answer_place, open_answer};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{ClaimRequest, FindRequest, FinishRequest, ReleaseRequest};

use crate::error::Fault;
use crate::seal::{self, FindSealKey};
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn claim_request_once(
        &self,
        environment: EnvironmentId,
        key: &DedupKey,
        holder: Id,
    ) -> Result<RequestClaim, Fault> {
        let (hash, body) = (&key.hash, &key.body);
        let claim =
            ClaimRequest { environment, hash, holder, body, claim_us: REQUEST_CLAIM, now: StoreClock::Database };
        if self.database.write(claim).await?.is_some() {
            return Ok(RequestClaim::Won);
        }
        let found = self.database.read(FindRequest { environment, hash }).await?;
        let (body, status, answer) = found.ok_or(Fault::Contended("a request released its key meanwhile"))?;
        let answer = open_answer(&self.database.seal, answer_place(environment, hash), answer);
        let answer = answer.map_err(seal::corrupt("request"))?;
        Ok(RequestClaim::of_holder(body == key.body, status, answer))
    }

    pub(crate) async fn finish_request_once(
        &self,
        environment: EnvironmentId,
        key: &DedupKey,
        holder: Id,
        answer: Option<&RequestAnswer>,
    ) -> Result<(), Fault> {
        let hash = &key.hash;
        match answer {
            Some(RequestAnswer { status, body }) => {
                let tx = self.database.tx().await?;
                let sealing = tx.begin(FindSealKey {}).await?;
                let seal_body = |body| self.database.seal.seal(sealing, answer_place(environment, hash), body);
                let sealed = body.as_deref().map(seal_body).transpose().map_err(seal::corrupt("request"))?;
                let (status, answer) = (*status, sealed.as_deref());
                let finish = FinishRequest {
                    environment,
                    hash,
                    holder,
                    status,
                    answer,
                    kept_us: key.kept,
                    now: StoreClock::Database,
                };
                tx.finish(finish).await.map(drop)
            }
            None => self.database.write(ReleaseRequest { environment, hash, holder }).await.map(drop),
        }
    }
}
