//! Application tokens: the keys that sign them, and the records that end them.

use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenEnd, TokenKeyChange, TokenMark};
use everhook_store::catalog::NewTokenKey;
use everhook_store::seal::token_place;
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{CreateTokenKey, DeleteTokenKey, FindTokenEnd, PruneTokenKey, SupersedeTokenKey};
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::seal;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    CreateTokenEnd<'a> = "create_token_end" {
        scope: AppScope, subject: &'a [u8], issued_until: Timestamp, ends_at: Timestamp, forget_at: Timestamp,
    };
    DeleteTokenEnd<'a> = "delete_token_end" { scope: AppScope, subject: &'a [u8], now: Timestamp };
}

pub(crate) fn put_key(tx: &Tx<'_>, key: &NewTokenKey, change: TokenKeyChange) -> Result<(), Fault> {
    let NewTokenKey { id, secret } = key;
    let is_first = change == TokenKeyChange::First;
    let sealed = tx.conn.seal().seal(seal::current(tx.conn)?, token_place(id), &secret.0);
    let secret = &sealed.map_err(seal::corrupt("token_key"))?;
    run(tx.conn, CreateTokenKey { id: *id, secret, is_first, now: StoreClock::At(tx.now) })?;
    match change {
        TokenKeyChange::First => {}
        TokenKeyChange::Rotate => drop(run(tx.conn, SupersedeTokenKey { id: *id, now: StoreClock::At(tx.now) })?),
        TokenKeyChange::Revoke => drop(run(tx.conn, DeleteTokenKey { id: *id })?),
    }
    Ok(())
}

pub(crate) fn prune_keys(tx: &Tx<'_>, before: Timestamp) -> Result<(), Fault> {
    run(tx.conn, PruneTokenKey { before }).map(drop)
}

pub(crate) fn end(tx: &Tx<'_>, scope: AppScope, ends: &[TokenEnd]) -> Result<(), Fault> {
    for TokenEnd { subject, issued_until, ends_at, forget_at } in ends {
        let (key, issued_until, ends_at, forget_at) = (subject.key(), *issued_until, *ends_at, *forget_at);
        let subject = key.as_slice();
        run(tx.conn, CreateTokenEnd { scope, subject, issued_until, ends_at, forget_at })?;
        run(tx.conn, DeleteTokenEnd { scope, subject, now: tx.now })?;
    }
    Ok(())
}

pub(crate) fn find_end(conn: &Connection, scope: AppScope, mark: &TokenMark) -> Result<Option<Timestamp>, Fault> {
    let [all, session, token] = &mark.subjects();
    let issued_at = mark.issued_at;
    run(conn, FindTokenEnd { scope, all, session, token, issued_at })
}
