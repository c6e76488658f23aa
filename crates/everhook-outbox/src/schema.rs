//! The texts that make the tables of an outbox. Running one again changes nothing.

/// For a PostgreSQL that is not Everhook's own: schema `everhook` with the tables and the function `everhook.send`.
pub const POSTGRES: &str = include_str!("../sql/postgres.sql");

/// For a SQLite file: the tables `everhook_outbox` and those beside it.
pub const SQLITE: &str = include_str!("../sql/sqlite.sql");

/// Lets a role of PostgreSQL call `everhook.send`, and do nothing else in the schema.
pub fn grant(role: &str) -> String {
    let role = format!("\"{}\"", role.replace('"', "\"\""));
    let arguments =
        |payload: &str| format!("text, text, {payload}, text, text, text[], text[], timestamptz, text, bigint");
    format!(
        "grant usage on schema everhook to {role};\n\
         grant execute on function everhook.send({}) to {role};\n\
         grant execute on function everhook.send({}) to {role};\n",
        arguments("text"),
        arguments("jsonb")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_quoted() {
        assert!(grant("shop").starts_with("grant usage on schema everhook to \"shop\";\n"));
        assert!(grant("a\"; drop").contains("\"a\"\"; drop\""));
    }

    /// `unixepoch` is of 3.38 and `subsec` of 3.42; where they are unknown, a row could not be inserted at all.
    #[test]
    fn the_clock_is_read_as_every_sqlite_can() {
        assert!(SQLITE.contains("julianday('now')") && !SQLITE.contains("unixepoch") && !SQLITE.contains("subsec"));
    }
}
