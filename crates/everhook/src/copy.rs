//! `everhook copy`: moves a store from the embedded database to PostgreSQL, while no server runs.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use everhook_postgres::{PostgresTransfer, TransferWeeks};
use everhook_sqlite::{SqliteTransfer, key_file};
use everhook_store::transfer::{TransferRow, TransferTable};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::config::{check_url, redact_url};
use crate::exit::usage;
use crate::operator::{LoggedChange, Operator, OperatorArgs, not_in_log};
use crate::output::{Answer, FormatArgs, Part, Table};
use crate::progress::Progress;
use crate::store;

/// Batches that are read ahead of the writer.
const BATCHES_AHEAD: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// Data folder of the embedded store, such as sqlite:///var/lib/everhook.
    #[arg(long, value_name = "URL")]
    from: String,
    /// Empty PostgreSQL database, such as postgres://user:password@host/everhook.
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    operator: OperatorArgs,
}

impl CopyArgs {
    /// Copies all rows in one transaction, pauses the egress of the source, and logs the copy in the target.
    pub(crate) async fn run(&self) -> anyhow::Result<Answer> {
        let (folder, operator) = (folder(&self.from)?, self.operator.clone().operator()?);
        if !self.to.starts_with("postgres") {
            return Err(usage(
                "--to must be a URL that starts with postgres://: a store can be copied to PostgreSQL only",
            ));
        }
        check_url(&self.to).map_err(|error| usage(format!("invalid --to: {error:#}")))?;
        let source = SqliteTransfer::open(&folder)?;
        everhook_postgres::migrate(&self.to).await?;
        let target = PostgresTransfer::begin(&self.to).await?;
        let (source, tables) = copy(source, target).await?;
        let place = redact_url(&self.to);
        source.retire(&format!("the store was copied to {place}")).context(
            "the copy is complete, but the egress of the source could not be paused: do not start a server on it",
        )?;
        let rows: u64 = tables.iter().map(|table| table.rows).sum();
        let data = json!({
            "from": folder, "to": place, "rows": rows,
            "tables": tables.iter().map(|table| json!({ "name": table.name, "rows": table.rows })).collect::<Vec<_>>(),
        });
        let mut told = format!("copied {rows} rows to {place}; the egress of the source is paused");
        if tables.iter().any(|table| table.name == "seal_key" && table.rows > 0) {
            told += &format!(
                "\nsecrets stay sealed: set secrets_key_file on every replica to a copy of {} (or of the keys that the \
                 source used)",
                key_file(&folder).display()
            );
        }
        if let Err(error) = log(&self.to, &folder, &operator).await {
            told += &format!("\n{}", not_in_log(&error).trim_end());
        }
        let table = Table::new(["TABLE", "ROWS"], tables.iter().filter(|table| table.rows > 0), |table| {
            [table.name.clone(), table.rows.to_string()]
        });
        Ok(Answer::object(data, vec![Part::Table(table), Part::Line(told)]))
    }
}

/// Logs the command in the copy, which was empty before.
async fn log(target: &str, source: &Path, operator: &Operator) -> anyhow::Result<()> {
    let opened = store::open_postgres_to_log(target).await?;
    let reason = Some(format!("copied from {}", source.display()));
    let change = LoggedChange { action: "copy", object: "/store".to_owned(), reason, ..LoggedChange::default() };
    operator.log_done(&opened, change).await
}

/// Copies every table. Returns the source, which no server could use meanwhile.
async fn copy(
    source: SqliteTransfer,
    target: PostgresTransfer,
) -> anyhow::Result<(SqliteTransfer, Vec<TransferTable>)> {
    let tables = source.tables()?;
    let mut weeks = TransferWeeks::default();
    source.id_seconds(|seconds| weeks.add(seconds))?;
    target.prepare(&tables, &weeks).await?;
    let total: u64 = tables.iter().map(|table| table.rows).sum();
    let (mut progress, mut done, mut source) = (Progress::new("copied"), 0, source);
    for table in &tables {
        let mut writer = target.table(table).await?;
        let mut reading = Reading::start(source, table.clone());
        while let Some(rows) = reading.rows.recv().await {
            writer.write(&rows).await?;
            done += rows.len() as u64;
            progress.set(done, total);
        }
        source = reading.end().await?;
        writer.finish().await?;
    }
    target.commit(&tables).await?;
    Ok((source, tables))
}

/// A thread that reads one table.
struct Reading {
    rows: mpsc::Receiver<Vec<TransferRow>>,
    thread: JoinSet<anyhow::Result<SqliteTransfer>>,
}

impl Reading {
    fn start(source: SqliteTransfer, table: TransferTable) -> Reading {
        let (sender, rows) = mpsc::channel(BATCHES_AHEAD);
        let mut thread = JoinSet::new();
        thread.spawn_blocking(move || {
            source.read(&table, |rows| sender.blocking_send(rows).is_ok())?;
            Ok(source)
        });
        Reading { rows, thread }
    }

    async fn end(mut self) -> anyhow::Result<SqliteTransfer> {
        self.thread.join_next().await.context("the reading thread was not started")?.context("could not read")?
    }
}

/// Returns the folder of a `sqlite://` URL. The name of the database file may follow the folder.
fn folder(url: &str) -> anyhow::Result<PathBuf> {
    let path = url.strip_prefix("sqlite://").filter(|path| !path.is_empty()).map(Path::new);
    let path =
        path.ok_or_else(|| usage("--from must have the form sqlite:///var/lib/everhook, with the data folder"))?;
    match path.parent().filter(|_| path.extension().is_some_and(|ending| ending == "db")) {
        Some(folder) => Ok(folder.to_owned()),
        None => Ok(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_a_folder_or_its_file() {
        assert_eq!(folder("sqlite:///var/lib/everhook").unwrap(), Path::new("/var/lib/everhook"));
        assert_eq!(folder("sqlite://./data/everhook.db").unwrap(), Path::new("./data"));
        for bad in ["sqlite://", "/var/lib/everhook", "postgres://db/x"] {
            assert!(folder(bad).is_err(), "{bad}");
        }
    }
}
