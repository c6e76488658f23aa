//! Idempotency keys of requests.

use everhook_store::dedup::DedupKey;

#[test]
fn what_is_hashed_cannot_be_shifted_between_its_parts() {
    let key = |method, path, key| DedupKey::request(method, path, key, b"").hash;
    assert_ne!(key("POST", "/a", "b"), key("POST", "/ab", ""));
    assert_eq!(key("POST", "/a", "b"), key("POST", "/a", "b"));
}
