//! Claims and resets of once-slots.

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::once::{self, Claimed, OnceClaim};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Order, Slice};
use everhook_store::error::StoreError;
use everhook_store::once::OnceRecord;

use crate::mem::MemStore;
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
    pub(super) fn find_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        key: &Name,
    ) -> Result<Option<OnceRecord>, StoreError> {
        let (tables, _) = self.lock();
        Ok(tables.once.get(&(environment, application, key.clone())).map(|row| record(key, row)))
    }

    pub(super) fn list_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        slice: &Slice<Name>,
    ) -> Result<Vec<OnceRecord>, StoreError> {
        let (tables, _) = self.lock();
        let of = tables.once.iter().filter(|((env, app, _), _)| (*env, *app) == (environment, application));
        let mut rows: Vec<_> = of.map(|((_, _, key), row)| record(key, row)).collect();
        if slice.order == Order::Descending {
            rows.reverse();
        }
        rows.retain(|row| match (&slice.after, slice.order) {
            (None, _) => true,
            (Some(after), Order::Ascending) => row.key > *after,
            (Some(after), Order::Descending) => row.key < *after,
        });
        rows.truncate(slice.limit);
        Ok(rows)
    }

    pub(super) fn reset_once_now(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        key: &Name,
    ) -> Result<bool, StoreError> {
        let (mut tables, now) = self.lock();
        let Some(row) = tables.once.get_mut(&(environment, application, key.clone())) else { return Ok(false) };
        if !row.slot.is_open() {
            row.slot = row.slot.reset();
            row.updated_at = now;
        }
        Ok(true)
    }
}

fn record(key: &Name, row: &OnceRow) -> OnceRecord {
    let OnceRow { slot, suppressed, created_at, claimed_at, updated_at } = *row;
    OnceRecord { key: key.clone(), slot, suppressed, created_at, claimed_at, updated_at }
}
