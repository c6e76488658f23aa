//! `everhook environment`: the event types of an environment as a file.

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::confirm::Consent;
use crate::exit::usage;
use crate::output::Answer;
use crate::remote::Remote;

#[derive(Debug, Subcommand)]
pub(crate) enum EnvironmentCommand {
    /// Print the event types of the environment as JSON, for `import` into another one.
    #[command(after_help = "Example:
  everhook environment export --context staging > environment.json
  everhook environment import environment.json --context prod")]
    Export,
    /// Create and replace event types from an exported file.
    Import {
        /// File that `everhook environment export` has written.
        file: PathBuf,
        #[command(flatten)]
        consent: Consent,
    },
}

impl EnvironmentCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            EnvironmentCommand::Export => {
                let exported = remote.post("/environment/export").await?;
                let text = format!("{exported:#}");
                Ok(Answer::line(exported, text))
            }
            EnvironmentCommand::Import { file, consent } => {
                let text =
                    std::fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
                let exported: Value = serde_json::from_str(&text)
                    .map_err(|error| usage(format!("{} is not JSON: {error}", file.display())))?;
                let count = exported["eventTypes"].as_array().map_or(0, Vec::len);
                remote.confirm(consent, &format!("create or replace {count} event types"))?;
                let body = json!({ "eventTypes": exported["eventTypes"], "settings": exported["settings"] });
                remote.post_body("/environment/import", &body).await?;
                Ok(Answer::line(json!({ "eventTypes": count }), format!("imported {count} event types")))
            }
        }
    }
}
