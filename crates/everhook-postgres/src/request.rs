//! Answers of requests with an idempotency key.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::REQUEST_CLAIM;
use everhook_store::dedup::{DedupKey, HASH_BYTES};
use everhook_store::request::{RequestAnswer, RequestClaim};
use everhook_store::seal::{answer_place, open_answer};
use everhook_store::statement;

use crate::error::Fault;
use crate::seal::{self, FindSealKey};
use crate::store::PostgresStore;

statement! {
    ClaimRequest<'a> = "claim_request" {
        environment: EnvironmentId, hash: &'a [u8; HASH_BYTES], holder: Id, body: &'a [u8; HASH_BYTES],
        claim_us: Duration,
    } -> Option<Id>;
    FindRequest<'a> = "find_request" { environment: EnvironmentId, hash: &'a [u8; HASH_BYTES] }
        -> Option<([u8; HASH_BYTES], Option<u16>, Option<Bytes>)>;
    FinishRequest<'a> = "finish_request" {
        environment: EnvironmentId, hash: &'a [u8; HASH_BYTES], holder: Id, status: i16, answer: Option<&'a [u8]>,
        kept_us: Duration,
    };
    ReleaseRequest<'a> = "release_request" { environment: EnvironmentId, hash: &'a [u8; HASH_BYTES], holder: Id };
}

impl PostgresStore {
    pub(crate) async fn claim_request_once(
        &self,
        environment: EnvironmentId,
        key: &DedupKey,
        holder: Id,
    ) -> Result<RequestClaim, Fault> {
        let (hash, body) = (&key.hash, &key.body);
        let claim = ClaimRequest { environment, hash, holder, body, claim_us: REQUEST_CLAIM };
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
                let (status, answer) = (i16::try_from(*status).unwrap_or(i16::MAX), sealed.as_deref());
                let finish = FinishRequest { environment, hash, holder, status, answer, kept_us: key.kept };
                tx.finish(finish).await.map(drop)
            }
            None => self.database.write(ReleaseRequest { environment, hash, holder }).await.map(drop),
        }
    }
}
