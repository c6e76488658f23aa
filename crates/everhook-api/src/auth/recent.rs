//! A short-lived cache of keys and tokens, which saves a read of the store per request.
//!
//! Unknown keys are not cached, so that a new key works at once. A revoked key works for at most `KEY_STALE` on other
//! replicas; the node that revoked it calls `clear`.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};

use everhook_core::time::Timestamp;

use crate::limits::{KEY_FRESH, KEY_REFRESH, KEY_STALE, KEYS_CACHED_MAX};

pub(crate) struct Recent<K, V>(Mutex<Cache<K, V>>);

struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// The number of calls of `clear`. A read that began before the last one is not cached.
    clears: u64,
}

#[derive(Clone)]
struct Entry<V> {
    value: V,
    read_at: Timestamp,
    refresh_at: Timestamp,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent(Mutex::new(Cache { entries: HashMap::new(), clears: 0 }))
    }
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// Returns the value of a key, from the cache or by `read`; none if the store has none.
    pub(crate) async fn get<E>(
        &self,
        key: K,
        now: Timestamp,
        read: impl Future<Output = Result<Option<V>, E>>,
    ) -> Result<Option<V>, E> {
        let clears = match self.look_up(&key, now) {
            Ok(value) => return Ok(Some(value)),
            Err(clears) => clears,
        };
        let value = read.await?;
        self.put(key, value.clone(), now, clears);
        Ok(value)
    }

    /// Whether the key was found since the last clear, however long ago.
    pub(crate) fn knows(&self, key: &K) -> bool {
        self.lock().entries.contains_key(key)
    }

    pub(crate) fn clear(&self) {
        let mut cache = self.lock();
        cache.clears += 1;
        cache.entries.clear();
    }

    /// Returns the cached value, or the number of clears before the read that follows.
    fn look_up(&self, key: &K, now: Timestamp) -> Result<V, u64> {
        let mut cache = self.lock();
        let clears = cache.clears;
        let entry = cache.entries.get_mut(key).ok_or(clears)?;
        // If the clock was set back, the entry would keep a revoked key valid for too long.
        if now >= entry.read_at.plus(KEY_STALE) || now < entry.read_at {
            return Err(clears);
        }
        if now >= entry.refresh_at {
            // Only this request reads the key again. Concurrent requests use the cached entry meanwhile.
            entry.refresh_at = now.plus(KEY_REFRESH);
            return Err(clears);
        }
        Ok(entry.value.clone())
    }

    fn put(&self, key: K, value: Option<V>, now: Timestamp, clears: u64) {
        let mut cache = self.lock();
        let Some(value) = value else {
            cache.entries.remove(&key);
            return;
        };
        if cache.clears != clears {
            return;
        }
        if cache.entries.len() >= KEYS_CACHED_MAX {
            cache.entries.clear();
        }
        cache.entries.insert(key, Entry { value, read_at: now, refresh_at: now.plus(KEY_FRESH) });
    }

    fn lock(&self) -> MutexGuard<'_, Cache<K, V>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_750_000_000_000);

    fn remembers(keys: &Recent<u8, ()>, millis: u64) -> bool {
        keys.look_up(&7, AT.plus(Duration::from_millis(millis))).is_ok()
    }

    #[test]
    fn a_key_is_read_again_by_one_request_at_a_time() {
        let keys = Recent::default();
        assert!(!remembers(&keys, 0));
        keys.put(7, Some(()), AT, 0);
        assert!(remembers(&keys, 1999));
        assert!(!remembers(&keys, 2000), "this one reads it again");
        assert!(remembers(&keys, 2001), "this one need not wait for it");
        assert!(!remembers(&keys, 2500), "the reader seems to have failed");
        assert!(!remembers(&keys, 4000), "an entry of this age is not used");
    }

    #[test]
    fn a_revoked_key_is_forgotten_and_a_clock_set_back_revives_none() {
        let keys = Recent::default();
        keys.put(7, Some(()), AT.plus(Duration::from_secs(60)), 0);
        assert!(!remembers(&keys, 0));
        keys.put(7, Some(()), AT, 0);
        keys.put(7, None, AT, 0);
        assert!(!remembers(&keys, 0));
    }

    #[test]
    fn a_read_that_began_before_a_clear_is_not_remembered() {
        let keys = Recent::default();
        keys.put(7, Some(()), AT, 0);
        keys.clear();
        assert!(!remembers(&keys, 0));
        keys.put(7, Some(()), AT, 0);
        assert!(!remembers(&keys, 0));
        keys.put(7, Some(()), AT, 1);
        assert!(remembers(&keys, 0));
    }
}
