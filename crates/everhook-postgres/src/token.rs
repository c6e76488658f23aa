//! Application tokens: the keys that sign them, and the records that end them.

use std::collections::BTreeMap;

use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenEnd, TokenKeyChange, TokenMark};
use everhook_store::catalog::NewTokenKey;
use everhook_store::seal::token_place;
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{CreateTokenKey, DeleteTokenKey, FindTokenEnd, SupersedeTokenKey};
use everhook_store::{columns, statement};

use crate::error::Fault;
use crate::seal::{self, FindSealKey};
use crate::store::PostgresStore;

columns! {
    TokenEnds of TokenEndRow<'a> {
        subject: &'a [u8], issued_until: Timestamp, ends_at: Timestamp, forget_at: Timestamp,
    }
}

statement! {
    CreateTokenEnd<'a> = "create_token_end" { scope: AppScope, ends: TokenEnds<'a> };
    DeleteTokenEnd<'a> = "delete_token_end" { scope: AppScope, subjects: Vec<&'a [u8]> };
    pub(crate) PruneTokenEnd = "prune_token_end" { now: Timestamp, limit: usize };
}

impl PostgresStore {
    pub(crate) async fn put_token_key_once(&self, key: &NewTokenKey, change: TokenKeyChange) -> Result<(), Fault> {
        let NewTokenKey { id, secret } = key;
        let id = *id;
        let tx = self.database.tx().await?;
        let sealing = tx.begin(FindSealKey {}).await?;
        let sealed = self.database.seal.seal(sealing, token_place(&id), &secret.0);
        let secret = &sealed.map_err(seal::corrupt("token_key"))?;
        tx.run(CreateTokenKey { id, secret, is_first: change == TokenKeyChange::First, now: StoreClock::Database })
            .await?;
        match change {
            TokenKeyChange::First => {}
            TokenKeyChange::Rotate => drop(tx.run(SupersedeTokenKey { id, now: StoreClock::Database }).await?),
            TokenKeyChange::Revoke => drop(tx.run(DeleteTokenKey { id }).await?),
        }
        tx.commit().await
    }

    pub(crate) async fn end_tokens_once(&self, scope: AppScope, ends: &[TokenEnd]) -> Result<(), Fault> {
        // One statement must not write a row twice.
        let ends: BTreeMap<(Vec<u8>, Timestamp), &TokenEnd> =
            ends.iter().map(|end| ((end.subject.key(), end.issued_until), end)).collect();
        let rows = ends.iter().map(|((subject, issued_until), end)| TokenEndRow {
            subject,
            issued_until: *issued_until,
            ends_at: end.ends_at,
            forget_at: end.forget_at,
        });
        let create = CreateTokenEnd { scope, ends: rows.collect() };
        let subjects = ends.keys().map(|(subject, _)| subject.as_slice()).collect();
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        tx.run(create).await?;
        tx.finish(DeleteTokenEnd { scope, subjects }).await.map(drop)
    }

    pub(crate) async fn find_token_end_once(
        &self,
        scope: AppScope,
        mark: &TokenMark,
    ) -> Result<Option<Timestamp>, Fault> {
        let [all, session, token] = &mark.subjects();
        let issued_at = mark.issued_at;
        self.database.read(FindTokenEnd { scope, all, session, token, issued_at }).await
    }
}
