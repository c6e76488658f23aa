//! `everhook outbox`: what waits in the outboxes of a running server, and what was set aside; and the making of new ones.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use everhook_postgres::PostgresOutbox;
use everhook_sqlite::SqliteOutbox;
use serde_json::{Value, json};

use crate::remote::{Remote, named};
use crate::table::{seconds, table, text};

/// Rows asked for at once.
const PAGE: usize = 250;

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Show every outbox that the server relays: rows that wait, the age of the oldest, rows that were set aside.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the rows of an outbox that were set aside, each with its error.
    List {
        /// The outbox's name; `main` is the one in the server's own database.
        outbox: String,
        /// Print JSON, payloads included.
        #[arg(long)]
        json: bool,
    },
    /// Change what is wrong with a row that was set aside.
    Fix {
        /// The outbox's name.
        outbox: String,
        /// The row's number.
        row: i64,
        #[command(flatten)]
        change: Change,
    },
    /// Put rows that were set aside back, to be relayed at once.
    Retry {
        /// The outbox's name.
        outbox: String,
        /// The rows' numbers.
        #[arg(required_unless_present = "all")]
        rows: Vec<i64>,
        /// Every row that was set aside.
        #[arg(long, conflicts_with = "rows")]
        all: bool,
    },
    /// Throw rows away that were set aside: they never become messages.
    Discard {
        /// The outbox's name.
        outbox: String,
        /// The rows' numbers.
        #[arg(required = true)]
        rows: Vec<i64>,
    },
    /// Make an outbox in a PostgreSQL that is not Everhook's own (--database) or in a SQLite file.
    Install {
        /// In this file.
        #[arg(long, value_name = "FILE")]
        sqlite: Option<PathBuf>,
    },
    /// Let a role of a PostgreSQL (--database) call everhook.send, and do nothing else in its schema.
    Grant {
        /// The role, which exists already.
        role: String,
    },
}

/// What to change; what is left out stays.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Change {
    /// Another application.
    #[arg(long, value_name = "ID or UID")]
    application: Option<String>,
    /// Another event type.
    #[arg(long, value_name = "NAME")]
    event_type: Option<String>,
    /// Another payload.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Another environment.
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Another event id.
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
}

impl OutboxCommand {
    /// Whether it speaks to a database instead of a running server.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, OutboxCommand::Install { .. } | OutboxCommand::Grant { .. })
    }

    /// Does what a running server has to do; answers what to print.
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<String> {
        match self {
            OutboxCommand::Status { json } => status(remote, json).await,
            OutboxCommand::List { outbox, json } => list(remote, &outbox, json).await,
            OutboxCommand::Fix { outbox, row, change } => {
                let path = format!("{}/{row}", aside(&outbox)?);
                remote.patch(&path, &change.body()).await?;
                Ok(format!("changed row {row}: retry it with `everhook outbox retry {outbox} {row}`\n"))
            }
            OutboxCommand::Retry { outbox, all: true, .. } => retry_all(remote, &outbox).await,
            OutboxCommand::Retry { outbox, rows, .. } => {
                let aside = aside(&outbox)?;
                for row in &rows {
                    remote.post(&format!("{aside}/{row}/retry")).await?;
                }
                Ok(format!("put {} back\n", count(rows.len() as u64)))
            }
            OutboxCommand::Discard { outbox, rows } => {
                let aside = aside(&outbox)?;
                for row in &rows {
                    remote.delete(&format!("{aside}/{row}")).await?;
                }
                Ok(format!("threw {} away\n", count(rows.len() as u64)))
            }
            OutboxCommand::Install { .. } | OutboxCommand::Grant { .. } => Ok(String::new()),
        }
    }

    /// Does what is done in a database; answers what to print.
    pub(crate) async fn run(self, database: Option<String>) -> anyhow::Result<String> {
        let database = database.context("say where with --database postgres://… (or, to install, --sqlite FILE)");
        match self {
            OutboxCommand::Install { sqlite: Some(_) } if database.is_ok() => {
                anyhow::bail!("--sqlite and --database are both given: name one place for the outbox")
            }
            OutboxCommand::Install { sqlite: Some(file) } => {
                SqliteOutbox::install(&file)?;
                Ok(format!("the outbox is in {}: name the file in an `[[outbox]]` of the settings\n", file.display()))
            }
            OutboxCommand::Install { sqlite: None } => {
                PostgresOutbox::install(&database?).await?;
                let next = "let a role use it with `everhook outbox grant`, and name the database in an `[[outbox]]`";
                Ok(format!("the outbox is there: {next} of the settings\n"))
            }
            OutboxCommand::Grant { role } => {
                PostgresOutbox::grant(&database?, &role).await?;
                Ok(format!("the role {role} may call everhook.send\n"))
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
            return Ok(format!("put {} back\n", count(retried)));
        }
    }
}

fn count(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}
