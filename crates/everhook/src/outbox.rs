//! `everhook outbox`: status and repair of outboxes, and installation of new ones.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use everhook_postgres::PostgresOutbox;
use everhook_sqlite::SqliteOutbox;
use serde_json::{Value, json};

use crate::remote::{Remote, named};
use crate::table::{seconds, table, text};

const PAGE: usize = 250;

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Show all outboxes of the server: waiting rows, age of the oldest, rows set aside.
    Status {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// List the rows that were set aside, with their errors.
    List {
        /// Name of the outbox; `main` is the one in the server's own database.
        outbox: String,
        /// Print JSON, with payloads, instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Correct a row that was set aside.
    Fix {
        /// Name of the outbox, such as main.
        outbox: String,
        /// Number of the row to correct.
        row: i64,
        #[command(flatten)]
        change: Change,
    },
    /// Return rows that were set aside to the outbox, to be relayed at once.
    Retry {
        /// Name of the outbox, such as main.
        outbox: String,
        /// Numbers of the rows to retry.
        #[arg(required_unless_present = "all")]
        rows: Vec<i64>,
        /// Select every row that was set aside.
        #[arg(long, conflicts_with = "rows")]
        all: bool,
    },
    /// Discard rows that were set aside. They never become messages.
    Discard {
        /// Name of the outbox, such as main.
        outbox: String,
        /// Numbers of the rows to discard.
        #[arg(required = true)]
        rows: Vec<i64>,
    },
    /// Install an outbox in a PostgreSQL database of your own (--database) or in a SQLite file.
    Install {
        /// SQLite file to install the outbox in.
        #[arg(long, value_name = "FILE")]
        sqlite: Option<PathBuf>,
    },
    /// Let a PostgreSQL role (--database) call everhook.send, and nothing else in its schema.
    Grant {
        /// Name of an existing role.
        role: String,
    },
}

/// Fields to change. Omitted fields stay unchanged.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Change {
    /// New id or uid of the application.
    #[arg(long, value_name = "ID or UID")]
    application: Option<String>,
    /// New event type of the row.
    #[arg(long, value_name = "NAME")]
    event_type: Option<String>,
    /// New payload, a JSON object.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// New environment of the row.
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// New event id of the row.
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
}

impl OutboxCommand {
    /// Whether the command works on a database instead of a running server.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, OutboxCommand::Install { .. } | OutboxCommand::Grant { .. })
    }

    /// Sends the command to a running server and returns the text to print.
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<String> {
        match self {
            OutboxCommand::Status { json } => status(remote, json).await,
            OutboxCommand::List { outbox, json } => list(remote, &outbox, json).await,
            OutboxCommand::Fix { outbox, row, change } => {
                let path = format!("{}/{row}", aside(&outbox)?);
                remote.patch(&path, &change.body()).await?;
                Ok(format!("changed row {row}: relay it with `everhook outbox retry {outbox} {row}`\n"))
            }
            OutboxCommand::Retry { outbox, all: true, .. } => retry_all(remote, &outbox).await,
            OutboxCommand::Retry { outbox, rows, .. } => {
                let aside = aside(&outbox)?;
                for row in &rows {
                    remote.post(&format!("{aside}/{row}/retry")).await?;
                }
                Ok(format!("returned {} to the outbox\n", count(rows.len() as u64)))
            }
            OutboxCommand::Discard { outbox, rows } => {
                let aside = aside(&outbox)?;
                for row in &rows {
                    remote.delete(&format!("{aside}/{row}")).await?;
                }
                Ok(format!("discarded {}\n", count(rows.len() as u64)))
            }
            OutboxCommand::Install { .. } | OutboxCommand::Grant { .. } => Ok(String::new()),
        }
    }

    /// Runs the command on a database and returns the text to print.
    pub(crate) async fn run(self, database: Option<String>) -> anyhow::Result<String> {
        let database = database.context("--database postgres://… is required (or --sqlite FILE, to install)");
        match self {
            OutboxCommand::Install { sqlite: Some(_) } if database.is_ok() => {
                anyhow::bail!("--sqlite conflicts with --database: choose one place for the outbox")
            }
            OutboxCommand::Install { sqlite: Some(file) } => {
                SqliteOutbox::install(&file)?;
                Ok(format!(
                    "installed the outbox in {}: add the file to the configuration as `[[outbox]]`\n",
                    file.display()
                ))
            }
            OutboxCommand::Install { sqlite: None } => {
                PostgresOutbox::install(&database?).await?;
                let next = "let a role use it with `everhook outbox grant`, and add the database to the configuration";
                Ok(format!("installed the outbox: {next} as `[[outbox]]`\n"))
            }
            OutboxCommand::Grant { role } => {
                PostgresOutbox::grant(&database?, &role).await?;
                Ok(format!("role {role} may call everhook.send\n"))
            }
            _ => Ok(String::new()),
        }
    }
}

impl Change {
    fn body(self) -> Value {
        json!({
            "application": self.application,
            "eventType": self.event_type,
            "payload": self.payload,
            "environment": self.environment,
            "eventId": self.event_id,
        })
    }
}

async fn status(remote: &Remote, json: bool) -> anyhow::Result<String> {
    let answer = remote.get("/outbox").await?;
    if json {
        return Ok(format!("{:#}\n", answer["data"]));
    }
    let mut rows = vec![["OUTBOX", "STATE", "DEPTH", "OLDEST", "ASIDE"].map(str::to_owned)];
    for outbox in answer["data"].as_array().into_iter().flatten() {
        let number = |key: &str| outbox[key].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
        let state = if outbox["reachable"] == true { "reachable" } else { "unreachable" };
        let more = if outbox["depthIsCapped"] == true { "+" } else { "" };
        let oldest = outbox["oldestAgeSeconds"].as_f64().map_or_else(|| "-".to_owned(), |age| format!("{age:.1} s"));
        let name = outbox["name"].as_str().unwrap_or_default().to_owned();
        rows.push([name, state.to_owned(), number("depth") + more, oldest, number("setAside")]);
    }
    Ok(table(&rows))
}

async fn list(remote: &Remote, outbox: &str, json: bool) -> anyhow::Result<String> {
    let found = remote.get_all(&aside(outbox)?, PAGE).await?;
    if json {
        return Ok(format!("{:#}\n", Value::from(found)));
    }
    let mut rows = vec![["ROW", "SINCE", "APPLICATION", "EVENT TYPE", "ERROR"].map(str::to_owned)];
    for row in &found {
        let [application, event_type, error] = ["application", "eventType", "error"].map(|key| text(row, key));
        rows.push([row["id"].to_string(), seconds(row, "setAsideAt"), application, event_type, error]);
    }
    Ok(table(&rows))
}

/// The path of the rows that an outbox has set aside.
fn aside(outbox: &str) -> anyhow::Result<String> {
    Ok(format!("/outbox/{}/aside", named("outbox", outbox)?))
}

async fn retry_all(remote: &Remote, outbox: &str) -> anyhow::Result<String> {
    let path = format!("{}/retry", aside(outbox)?);
    let mut retried = 0;
    loop {
        let answer = remote.post(&path).await?;
        retried += answer["retried"].as_u64().unwrap_or_default();
        if answer["done"] != false {
            return Ok(format!("returned {} to the outbox\n", count(retried)));
        }
    }
}

fn count(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}
