//! The names of operations in errors.

use everhook_store::query::QueryName;
use everhook_store::store::Op;

#[test]
fn operations_are_named_in_words() {
    assert_eq!(Op::Append.to_string(), "append");
    assert_eq!(Op::CloseExpired.to_string(), "close expired");
    assert_eq!(Op::Read(QueryName::FindEventType).to_string(), "find event type");
    assert_eq!(Op::TakeOutbox.to_string(), "take outbox");
}
