//! A short-lived cache of API keys, which saves a read of the store per request.
//!
//! Unknown keys are not cached, so that a new key works at once.

use std::collections::HashMap;
use std::sync::Mutex;

use everhook_core::api_key::{ApiKeyHash, KeyScope};
use everhook_core::time::Timestamp;
use everhook_engine::node::Node;
use everhook_store::error::StoreError;
use everhook_store::query;

use crate::limits::{KEY_FRESH, KEY_REFRESH, KEY_STALE, KEYS_CACHED_MAX};

#[derive(Default)]
pub(crate) struct Keys(Mutex<HashMap<ApiKeyHash, Known>>);

#[derive(Clone, Copy)]
struct Known {
    scope: KeyScope,
    read_at: Timestamp,
    refresh_at: Timestamp,
}

impl Keys {
    /// Returns the scope of a key, or none if the key is unknown or revoked.
    pub(crate) async fn find(
        &self,
        node: &Node,
        hash: ApiKeyHash,
        now: Timestamp,
    ) -> Result<Option<KeyScope>, StoreError> {
        if let Some(scope) = self.remembered(&hash, now) {
            return Ok(Some(scope));
        }
        let scope = node.read(query::FindKey { hash }).await?;
        self.remember(hash, scope, now);
        Ok(scope)
    }

    fn remembered(&self, hash: &ApiKeyHash, now: Timestamp) -> Option<KeyScope> {
        let mut keys = self.lock();
        let known = keys.get_mut(hash)?;
        // If the clock was set back, the entry would keep a revoked key valid for too long.
        if now >= known.read_at.plus(KEY_STALE) || now < known.read_at {
            return None;
        }
        if now >= known.refresh_at {
            // Only this request reads the key again. Concurrent requests use the cached entry meanwhile.
            known.refresh_at = now.plus(KEY_REFRESH);
            return None;
        }
        Some(known.scope)
    }

    fn remember(&self, hash: ApiKeyHash, scope: Option<KeyScope>, now: Timestamp) {
        let mut keys = self.lock();
        let Some(scope) = scope else {
            keys.remove(&hash);
            return;
        };
        if keys.len() >= KEYS_CACHED_MAX {
            keys.clear();
        }
        keys.insert(hash, Known { scope, read_at: now, refresh_at: now.plus(KEY_FRESH) });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ApiKeyHash, Known>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HASH: ApiKeyHash = [7; 32];
    const AT: Timestamp = Timestamp::from_millis(1_750_000_000_000);

    fn remembers(keys: &Keys, millis: u64) -> bool {
        keys.remembered(&HASH, AT.plus(Duration::from_millis(millis))).is_some()
    }

    #[test]
    fn a_key_is_read_again_by_one_request_at_a_time() {
        let keys = Keys::default();
        assert!(!remembers(&keys, 0));
        keys.remember(HASH, Some(KeyScope::Admin), AT);
        assert!(remembers(&keys, 1999));
        assert!(!remembers(&keys, 2000), "this request reads the key again");
        assert!(remembers(&keys, 2001), "this request does not wait for the read");
        assert!(!remembers(&keys, 2500), "the read seems to have failed");
        assert!(!remembers(&keys, 4000), "an entry of this age is not used");
    }

    #[test]
    fn a_revoked_key_is_forgotten_and_a_clock_set_back_revives_none() {
        let keys = Keys::default();
        keys.remember(HASH, Some(KeyScope::Admin), AT.plus(Duration::from_secs(60)));
        assert!(!remembers(&keys, 0));
        keys.remember(HASH, Some(KeyScope::Admin), AT);
        keys.remember(HASH, None, AT);
        assert!(!remembers(&keys, 0));
    }
}
