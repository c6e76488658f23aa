//! Claims and resets of once-slots.

use everhook_core::id::{EnvironmentId, MessageId};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::once::{self, Claimed, OnceClaim};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Slice;
use everhook_store::once::OnceRecord;

use crate::mem::MemStore;
use crate::mem::resource::cut;
use crate::mem::tables::{OnceRow, Tables};

/// Claims a slot for a message that is accepted if it wins. Otherwise returns the winner and counts the suppressed
/// call.
pub(super) fn take(
    tables: &mut Tables,
    environment: EnvironmentId,
    message: &Message,
    claim: OnceClaim,
    now: Timestamp,
) -> Option<MessageId> {
    let key = (environment, message.application, claim.key);
    let known = tables.once.get_mut(&key);
    match once::claim(known.as_ref().map(|row| row.slot), claim.phase, message.id) {
        Claimed::Won(slot) => {
            let (created_at, suppressed) = known.map_or((now, 0), |row| (row.created_at, row.suppressed));
            tables.once.insert(key, OnceRow { slot, suppressed, created_at, claimed_at: now, updated_at: now });
            None
        }
        Claimed::Suppressed(winner) => {
            if let Some(row) = known {
                row.suppressed += 1;
            }
            Some(winner)
        }
    }
}

impl MemStore {
    pub(super) fn find_once(&self, scope: AppScope, key: &Name) -> Option<OnceRecord> {
        let (tables, _) = self.lock();
        tables.once.get(&(scope.environment, scope.application, key.clone())).map(|row| record(key, row))
    }

    pub(super) fn list_once(&self, scope: AppScope, slice: &Slice<Name>) -> Vec<OnceRecord> {
        let (tables, _) = self.lock();
        let of = tables.once.iter().filter(|((env, app, _), _)| (*env, *app) == (scope.environment, scope.application));
        cut(of.map(|((_, _, key), row)| record(key, row)).collect(), |row: &OnceRecord| row.key.clone(), slice)
    }

    pub(super) fn reset_once_now(&self, scope: AppScope, key: &Name) -> bool {
        let (mut tables, now) = self.lock();
        let Some(row) = tables.once.get_mut(&(scope.environment, scope.application, key.clone())) else { return false };
        if !row.slot.is_open() {
            row.slot = row.slot.reset();
            row.updated_at = now;
        }
        true
    }
}

fn record(key: &Name, row: &OnceRow) -> OnceRecord {
    let OnceRow { slot, suppressed, created_at, claimed_at, updated_at } = *row;
    OnceRecord { key: key.clone(), slot, suppressed, created_at, claimed_at, updated_at }
}
