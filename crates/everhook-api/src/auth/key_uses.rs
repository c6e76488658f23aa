//! Remembers when this node last noted the use of a key, so that concurrent requests write one note.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use everhook_core::id::KeyId;
use everhook_core::time::Timestamp;

use crate::limits::KEYS_CACHED_MAX;

#[derive(Default)]
pub(crate) struct KeyUses(Mutex<HashMap<KeyId, Timestamp>>);

impl KeyUses {
    /// Returns true for the first caller within `span`, who writes the note.
    pub(crate) fn claim(&self, key: KeyId, now: Timestamp, span: Duration) -> bool {
        let mut noted = self.0.lock().expect("nothing panics while it holds this lock");
        if noted.get(&key).is_some_and(|at| now < at.plus(span)) {
            return false;
        }
        if noted.len() >= KEYS_CACHED_MAX {
            noted.clear();
        }
        noted.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use everhook_core::id::Id;

    use super::*;

    #[test]
    fn one_request_in_a_minute_notes_the_use() {
        let (uses, key, at) = (KeyUses::default(), KeyId(Id::MIN), Timestamp::from_millis(1_750_000_000_000));
        let minute = Duration::from_secs(60);
        let claims = [0, 1, 59, 60, 61].map(|secs| uses.claim(key, at.plus(Duration::from_secs(secs)), minute));
        assert_eq!(claims, [true, false, false, true, false]);
    }
}
