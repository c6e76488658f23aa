//! `everhook outbox`: status and repair of outboxes, and installation of new ones.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use everhook_postgres::PostgresOutbox;
use everhook_sqlite::SqliteOutbox;
use serde_json::{Value, json};

use crate::cli::SettingsArgs;
use crate::config::{Flags, StoreConfig};
use crate::confirm::Consent;
use crate::exit::usage;
use crate::output::Answer;
use crate::remote::{ClientArgs, Remote, named};
use crate::table::{age, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Show all outboxes of the server: waiting rows, age of the oldest, rows set aside.
    Status,
    /// List the rows that were set aside, with their errors.
    List {
        /// Name of the outbox; `main` is the one in the server's own database.
        outbox: String,
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
        #[command(flatten)]
        consent: Consent,
    },
    /// Install an outbox in a PostgreSQL database of your own or in a SQLite file.
    #[command(after_help = "Examples:
  everhook outbox install --database postgres://owner@db/shop
  everhook outbox install --sqlite shop.db")]
    Install(Place),
    /// Let a PostgreSQL role call everhook.send, and nothing else in its schema.
    Grant {
        /// Name of an existing role.
        role: String,
        #[command(flatten)]
        settings: SettingsArgs,
    },
}

/// The place of a new outbox.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Place {
    /// PostgreSQL database to install the outbox in.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// SQLite file to install the outbox in.
    #[arg(long, value_name = "FILE")]
    sqlite: Option<PathBuf>,
}

/// Fields to change. Omitted fields stay unchanged.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Change {
    /// New id or uid of the application.
    #[arg(long, alias = "app", value_name = "ID or UID")]
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
    /// Sends the command to a running server, or works on a database.
    pub(crate) async fn run(self, client: &ClientArgs) -> anyhow::Result<Answer> {
        let is_local = matches!(self, OutboxCommand::Install(_) | OutboxCommand::Grant { .. });
        if is_local && client.is_given() {
            return Err(usage("--url, --key, --context, --json and --csv have no effect here: remove them"));
        }
        match self {
            OutboxCommand::Install(place) => place.install().await,
            OutboxCommand::Grant { role, settings } => {
                let StoreConfig::Postgres { url, direct_url, .. } = settings.load(Flags::default())?.check()?.store
                else {
                    return Err(usage("an embedded database has no outbox: set --database to a PostgreSQL URL"));
                };
                PostgresOutbox::grant(&direct_url.unwrap_or(url).0, &role).await?;
                Ok(Answer::line(json!({ "granted": role }), format!("role {role} may call everhook.send")))
            }
            OutboxCommand::Status => status(&client.remote()?).await,
            OutboxCommand::List { outbox } => list(&client.remote()?, &outbox).await,
            OutboxCommand::Fix { outbox, row, change } => {
                client.remote()?.patch(&format!("{}/{row}", aside(&outbox)?), &change.body()).await?;
                let text = format!("changed row {row}: relay it with `everhook outbox retry {outbox} {row}`");
                Ok(Answer::line(json!({ "changed": row }), text))
            }
            OutboxCommand::Retry { outbox, all: true, .. } => retry_all(&client.remote()?, &outbox).await,
            OutboxCommand::Retry { outbox, rows, .. } => {
                let (remote, aside) = (client.remote()?, aside(&outbox)?);
                for row in &rows {
                    remote.post(&format!("{aside}/{row}/retry")).await?;
                }
                Ok(retried(rows.len() as u64))
            }
            OutboxCommand::Discard { outbox, rows, consent } => {
                let (remote, aside) = (client.remote()?, aside(&outbox)?);
                remote.confirm(consent, &format!("discard {} of outbox {outbox}", count(rows.len() as u64)))?;
                for row in &rows {
                    remote.delete(&format!("{aside}/{row}")).await?;
                }
                let text = format!("discarded {}", count(rows.len() as u64));
                Ok(Answer::line(json!({ "discarded": rows }), text))
            }
        }
    }
}

impl Place {
    async fn install(self) -> anyhow::Result<Answer> {
        let text = match (self.sqlite, self.database) {
            (Some(file), _) => {
                SqliteOutbox::install(&file)?;
                let file = file.display();
                format!("installed the outbox in {file}: add the file to the configuration as `[[outbox]]`")
            }
            (None, database) => {
                PostgresOutbox::install(&database.unwrap_or_default()).await?;
                let next = "let a role use it with `everhook outbox grant`, and add the database to the configuration";
                format!("installed the outbox: {next} as `[[outbox]]`")
            }
        };
        Ok(Answer::line(json!({ "installed": true }), text))
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

async fn status(remote: &Remote) -> anyhow::Result<Answer> {
    let list = Answer::list(remote.get_data("/outbox").await?, HEADS, row);
    Ok(list.if_empty("no outboxes: `everhook outbox install` installs one"))
}

pub(crate) const HEADS: [&str; 5] = ["OUTBOX", "STATE", "DEPTH", "OLDEST", "ASIDE"];

pub(crate) fn row(outbox: &Value) -> [String; 5] {
    let state = if outbox["reachable"] == true { "reachable" } else { "unreachable" };
    let more = if outbox["depthIsCapped"] == true { "+" } else { "" };
    let [name, depth, aside] = cells(outbox, ["name", "depth", "setAside"]);
    [name, state.to_owned(), depth + more, age(outbox, "oldestAgeSeconds"), aside]
}

async fn list(remote: &Remote, outbox: &str) -> anyhow::Result<Answer> {
    let rows = remote.get_all(&aside(outbox)?).await?;
    let list = Answer::list(rows, ["ROW", "SINCE", "APPLICATION", "EVENT TYPE", "ERROR"], |row| {
        let [id, application, event_type, error] = cells(row, ["id", "application", "eventType", "error"]);
        [id, time(row, "setAsideAt"), application, event_type, error]
    });
    Ok(list.if_empty("no rows are set aside"))
}

/// The path of the rows that an outbox has set aside.
fn aside(outbox: &str) -> anyhow::Result<String> {
    Ok(format!("/outbox/{}/aside", named("outbox", outbox)?))
}

async fn retry_all(remote: &Remote, outbox: &str) -> anyhow::Result<Answer> {
    let path = format!("{}/retry", aside(outbox)?);
    let mut rows = 0;
    loop {
        let answer = remote.post(&path).await?;
        rows += answer["retried"].as_u64().unwrap_or_default();
        if answer["done"] != false {
            return Ok(retried(rows));
        }
    }
}

fn retried(rows: u64) -> Answer {
    Answer::line(json!({ "retried": rows }), format!("returned {} to the outbox", count(rows)))
}

fn count(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}
