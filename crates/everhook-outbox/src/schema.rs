//! SQL texts that create the tables of an outbox. Each can be run repeatedly.

/// For a PostgreSQL database that is not Everhook's own: schema `everhook` with tables and the function
/// `everhook.send`.
pub const POSTGRES: &str = include_str!("../sql/postgres.sql");

/// For a SQLite file: the table `everhook_outbox` and its companions.
pub const SQLITE: &str = include_str!("../sql/sqlite.sql");

/// Returns SQL that lets a PostgreSQL role call `everhook.send`, and nothing else in the schema.
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
