//! Answers of requests with an idempotency key.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::REQUEST_CLAIM;
use everhook_store::dedup::DedupKey;
use everhook_store::request::{RequestClaim, RequestEnd};
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

    pub(crate) async fn finish_request_once(&self, environment: EnvironmentId, end: &RequestEnd) -> Result<(), Fault> {
        let RequestEnd { key, holder, answer } = end;
        let (hash, holder) = (&key.hash, *holder);
        match answer {
            Some(answer) => {
                let tx = self.database.tx().await?;
                let current = tx.begin(FindSealKey {}).await?;
                let sealed = answer.sealed_body(&self.database.seal, current, answer_place(environment, hash));
                let sealed = sealed.map_err(seal::corrupt("request"))?;
                let (status, answer, kept_us, now) = (answer.status, sealed.as_deref(), key.kept, StoreClock::Database);
                tx.finish(FinishRequest { environment, hash, holder, status, answer, kept_us, now }).await.map(drop)
            }
            None => self.database.write(ReleaseRequest { environment, hash, holder }).await.map(drop),
        }
    }
}
