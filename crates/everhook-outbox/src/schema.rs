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
