//! The SQL that creates an outbox.

use everhook_outbox::schema::{SQLITE, grant};

#[test]
fn a_role_is_quoted() {
    assert!(grant("shop").starts_with("grant usage on schema everhook to \"shop\";\n"));
    assert!(grant("a\"; drop").contains("\"a\"\"; drop\""));
}

/// SQLite has `unixepoch` since 3.38 and `subsec` since 3.42. Inserts would fail on older versions.
#[test]
fn the_clock_is_read_as_every_sqlite_can() {
    assert!(SQLITE.contains("julianday('now')") && !SQLITE.contains("unixepoch") && !SQLITE.contains("subsec"));
}
