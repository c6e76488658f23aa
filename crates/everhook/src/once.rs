//! `everhook once`: the once-slots of an application.

use clap::Subcommand;
use serde_json::Value;

use crate::output::Answer;
use crate::remote::{Remote, named};
use crate::table::{cell, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum OnceCommand {
    /// List the slots of an application: phase, winner, suppressed calls.
    List {
        /// Id or uid of the application.
        application: String,
    },
    /// Show one slot of an application.
    Show {
        /// Id or uid of the application.
        application: String,
        /// Key of the slot, such as run-42.
        key: String,
    },
    /// Open the next phase of a slot: the next message that claims it is sent. The slot keeps its history.
    Reset {
        /// Id or uid of the application.
        application: String,
        /// Key of the slot, such as run-42.
        key: String,
    },
}

impl OnceCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            OnceCommand::List { application } => list(remote, &application).await,
            OnceCommand::Show { application, key } => Ok(shown(remote.get(&path(&application, &key)?).await?)),
            OnceCommand::Reset { application, key } => reset(remote, &application, &key).await,
        }
    }
}

async fn list(remote: &Remote, application: &str) -> anyhow::Result<Answer> {
    let path = format!("/app/{}/once", named("application", application)?);
    let slots = remote.get_all(&path).await?;
    let heads = ["KEY", "PHASE", "STATE", "WINNER", "WINNER PHASE", "SUPPRESSED", "CLAIMED"];
    let list = Answer::list(slots, heads, |slot| {
        let [key, phase, winner, winner_phase, suppressed] =
            cells(slot, ["key", "phase", "winner", "winnerPhase", "suppressedCount"]);
        [key, phase, state(slot), winner, winner_phase, suppressed, time(slot, "claimedAt")]
    });
    Ok(list.if_empty("no once-slots: `everhook msg send --once` claims one"))
}

fn shown(slot: Value) -> Answer {
    let facts = vec![
        ("key", cell(&slot, "key")),
        ("phase", format!("{} ({})", slot["phase"], state(&slot))),
        ("winner", format!("{} in phase {}", cell(&slot, "winner"), slot["winnerPhase"])),
        ("suppressed", cell(&slot, "suppressedCount")),
        ("created", time(&slot, "createdAt")),
        ("claimed", time(&slot, "claimedAt")),
        ("updated", time(&slot, "updatedAt")),
    ];
    Answer::facts(slot, facts)
}

async fn reset(remote: &Remote, application: &str, key: &str) -> anyhow::Result<Answer> {
    let path = path(application, key)?;
    remote.delete(&path).await?;
    let slot = remote.get(&path).await?;
    let text = format!("{key} is in phase {} ({})", slot["phase"], state(&slot));
    Ok(Answer::line(slot, text))
}

fn path(application: &str, key: &str) -> anyhow::Result<String> {
    Ok(format!("/app/{}/once/{}", named("application", application)?, named("key", key)?))
}

fn state(slot: &Value) -> String {
    if slot["open"] == true { "open: the next claim wins".to_owned() } else { "won".to_owned() }
}
