//! The key of a message for an endpoint that orders its deliveries by a value in the payload.
//!
//! Pure. A path is a JSON pointer (RFC 6901). Keys are hashes, so that a value of any length takes eight bytes; two
//! values with the same hash wait for each other, which breaks no order.

use serde_json::Value;

use crate::id::Id;
use crate::limits::ORDERING_KEY_BYTES_MAX;
use crate::policy::OnDead;
use crate::violation::{Violation, at};

/// The hash of a value by which deliveries of one endpoint are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey(pub i64);

/// The order of an endpoint by a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRule<'a> {
    /// A JSON pointer into the payload.
    pub pointer: &'a str,
    pub on_dead: OnDead,
}

/// The place of a new delivery in the order of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPlace {
    pub key: OrderKey,
    /// Whether later deliveries of the key wait while this one is dead.
    pub blocks: bool,
}

impl KeyRule<'_> {
    /// Returns the place of a delivery with this payload.
    pub fn place(self, payload: &Value) -> KeyPlace {
        KeyPlace { key: OrderKey::of(payload.pointer(self.pointer)), blocks: self.on_dead == OnDead::Block }
    }
}

impl OrderKey {
    /// Returns the key of a value. A missing value, null, an object and a list count as one common key. A text differs
    /// from the number with the same digits.
    pub fn of(value: Option<&Value>) -> OrderKey {
        let text = value.filter(|value| value.is_string() || value.is_number() || value.is_boolean());
        let text = text.map(Value::to_string).unwrap_or_default();
        let hash = *Id::derived(&[b"order", text.as_bytes()]).as_bytes();
        let [a, b, c, d, e, f, g, h, ..] = hash;
        OrderKey(i64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

pub(super) fn check_pointer(pointer: &str) -> Result<(), Violation> {
    let place = || at("ordering").member("key");
    if !pointer.starts_with('/') {
        return Err(place().breaks("must be a JSON pointer, such as \"/customerId\""));
    }
    if pointer.len() > ORDERING_KEY_BYTES_MAX {
        return Err(place().breaks(format!("must have at most {ORDERING_KEY_BYTES_MAX} bytes")));
    }
    let mut tildes = pointer.split('~').skip(1);
    if tildes.any(|rest| !rest.starts_with(['0', '1'])) {
        return Err(place().breaks("must be a JSON pointer: write ~0 for ~ and ~1 for / in a name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(pointer: &str, payload: &Value) -> OrderKey {
        KeyRule { pointer, on_dead: OnDead::Skip }.place(payload).key
    }

    #[test]
    fn equal_values_have_one_key_and_different_values_differ() {
        let payload = json!({"customer": {"id": "a"}, "n": 1, "text": "1", "yes": true, "list": ["a"]});
        let [a, n, text, yes] = ["/customer/id", "/n", "/text", "/yes"].map(|pointer| key(pointer, &payload));
        assert_eq!(a, key("/list/0", &payload));
        for (one, other) in [(a, n), (n, text), (text, yes), (yes, a)] {
            assert_ne!(one, other);
        }
        // Keys are stored: another hash would forget the order of open deliveries.
        assert_eq!(a, OrderKey::of(Some(&json!("a"))));
    }

    #[test]
    fn payloads_without_the_value_share_a_key() {
        let payload = json!({"null": null, "object": {}, "list": [1], "empty": ""});
        let common = OrderKey::of(None);
        for pointer in ["/missing", "/null", "/object", "/list", "/list/7", "/null/deeper"] {
            assert_eq!(key(pointer, &payload), common, "{pointer}");
        }
        assert_ne!(key("/empty", &payload), common);
        assert_eq!(key("/n", &Value::Null), common, "a payload that is not JSON");
    }

    #[test]
    fn a_path_must_be_a_json_pointer() {
        for good in ["/a", "/a/b/0", "/a~1b", "/~0", "/"] {
            check_pointer(good).unwrap();
        }
        for bad in ["", "a", "a.b", "/a~", "/a~2"] {
            let violation = check_pointer(bad).unwrap_err();
            assert_eq!(violation.path, ["ordering", "key"], "{bad}");
        }
        assert!(check_pointer(&"/a".repeat(ORDERING_KEY_BYTES_MAX)).is_err());
    }
}
