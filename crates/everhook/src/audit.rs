//! `everhook audit`: the log of the operations of callers.

use clap::Subcommand;
use everhook_core::time::Timestamp;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::output::Answer;
use crate::remote::{Remote, query};
use crate::table::{cells, time};
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List the entries of the audit log, the newest first: who did what, to which object, and why.
    #[command(after_help = "Examples:
  everhook audit list --actor billing --since 2d
  everhook audit list --object /queue/email --json")]
    List {
        /// Show only entries of the key with this name.
        #[arg(long, value_name = "NAME")]
        actor: Option<String>,
        /// Show only entries of this operation, such as v1.queue.pause.
        #[arg(long, value_name = "OPERATION")]
        action: Option<String>,
        /// Show only entries of objects whose path starts with this text, such as /queue/email.
        #[arg(long, value_name = "PATH")]
        object: Option<String>,
        /// Show only entries since this time, such as 2d or 2026-01-31.
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        since: Option<Timestamp>,
        /// Show only entries before this time.
        #[arg(long, value_name = "TIME", value_parser = when::past)]
        until: Option<Timestamp>,
        /// Show at most this many entries.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Check that no entry was changed or removed. The exit code is 1 if one was.
    Verify,
}

impl AuditCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            AuditCommand::List { actor, action, object, since, until, limit } => {
                let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
                let filter = [
                    ("actor", actor),
                    ("action", action),
                    ("object", object),
                    ("since", time(since)),
                    ("until", time(until)),
                ];
                let found = remote.get_some(&format!("/audit{}", query(&filter)), limit).await?;
                Ok(Answer::found(found, HEADS, row))
            }
            AuditCommand::Verify => verify(remote).await,
        }
    }
}

/// Checks the whole log, piece by piece.
async fn verify(remote: &Remote) -> anyhow::Result<Answer> {
    let (mut checked, mut after) = (0, 0);
    loop {
        let result = remote.get(&format!("/audit/verify?after={after}")).await?;
        checked += result["checked"].as_u64().unwrap_or_default();
        if let Some(problem) = result["problem"].as_str() {
            return Err(Failure::error(Exit::Failed, format!("the audit log is not intact: {problem}")));
        }
        let (seq, hash) = (&result["seq"], result["hash"].as_str().unwrap_or_default());
        if result["done"] == true {
            let text = format!("{checked} entries are intact; the last one is {seq} with the hash {hash}");
            return Ok(Answer::line(json!({ "checked": checked, "seq": seq, "hash": hash }), text));
        }
        after = seq.as_i64().unwrap_or_default();
    }
}

const HEADS: [&str; 8] = ["SEQ", "TIME", "ACTOR", "PRINCIPAL", "ACTION", "OBJECT", "STATUS", "REASON"];

fn row(entry: &Value) -> [String; 8] {
    let [seq, phase, actor, principal, action, object, status, reason] =
        cells(entry, ["seq", "phase", "actor", "principal", "action", "object", "status", "reason"]);
    // Only requests end with a status; commands do not.
    let status = if status.is_empty() { phase } else { status };
    [seq, time(entry, "at"), actor, principal, action, object, status, reason]
}
