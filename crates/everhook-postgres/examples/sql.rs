//! Prints a statement in the form that psql accepts, or the names of all statements. `cargo xtask sql` runs it.

use std::process::ExitCode;

use everhook_postgres::{StoreStatement, statements};

#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn main() -> ExitCode {
    let Some(wanted) = std::env::args().nth(1) else {
        statements().iter().for_each(|statement| println!("{}", statement.name));
        return ExitCode::SUCCESS;
    };
    let Some(statement) = statements().into_iter().find(|statement| statement.name == wanted) else {
        eprintln!("statement {wanted:?} not found: run the command without a name to list all statements");
        return ExitCode::FAILURE;
    };
    let StoreStatement { name, types, text, descending } = statement;
    let types = if types.is_empty() { types } else { format!(" ({types})") };
    println!("prepare {name}{types} as\n{}", text.trim_end());
    if let Some(descending) = descending {
        println!("\nprepare {name}_descending{types} as\n{}", descending.trim_end());
    }
    ExitCode::SUCCESS
}
