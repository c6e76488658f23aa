//! `everhook integration`: named, lasting keys of one application.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app;
use crate::confirm::Consent;
use crate::output::Answer;
use crate::remote::{Deletion, Remote, named};
use crate::table::{cell, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum IntegrationCommand {
    /// List the integrations of an application.
    List {
        /// Id or uid of the application.
        application: String,
    },
    /// Create an integration and print its key. The key is shown only once.
    #[command(after_help = "Example:
  everhook integration create acme 'billing connector'")]
    Create {
        /// Id or uid of the application.
        application: String,
        /// Name for people.
        name: String,
        /// Feature flag of the key; repeatable.
        #[arg(long = "feature-flag", value_name = "FLAG")]
        feature_flags: Vec<String>,
    },
    /// Show an integration.
    #[command(visible_alias = "get")]
    Show(IntegrationAt),
    /// Change the name and the feature flags of an integration. Its key stays.
    Update {
        #[command(flatten)]
        at: IntegrationAt,
        /// New name for people.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Feature flag of the key; repeatable. Replaces earlier ones; none removes all.
        #[arg(long = "feature-flag", value_name = "FLAG")]
        feature_flags: Vec<String>,
    },
    /// Replace the key of an integration and print the new one. The old key ends at once.
    RotateKey {
        #[command(flatten)]
        at: IntegrationAt,
        #[command(flatten)]
        consent: Consent,
    },
    /// Delete an integration. Its key ends at once.
    Delete {
        #[command(flatten)]
        at: IntegrationAt,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(crate) struct IntegrationAt {
    /// Id or uid of the application.
    application: String,
    /// Id of the integration.
    integration: String,
}

impl IntegrationCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            IntegrationCommand::List { application } => {
                let found = remote.get_all(&integrations(&application)?).await?;
                let list = Answer::list(found, ["ID", "NAME", "FEATURE FLAGS", "CREATED"], |integration| {
                    let [id, name, flags] = cells(integration, ["id", "name", "featureFlags"]);
                    [id, name, flags, time(integration, "createdAt")]
                });
                Ok(list.if_empty("no integrations: `everhook integration create` creates one"))
            }
            IntegrationCommand::Create { application, name, feature_flags } => {
                let path = integrations(&application)?;
                let body = json!({ "name": name, "featureFlags": feature_flags });
                let mut created = remote.post_body(&path, &body).await?;
                let rotated = remote.post(&format!("{path}/{}/key/rotate", cell(&created, "id"))).await?;
                created["key"] = rotated["key"].clone();
                let key = cell(&created, "key");
                Ok(Answer::line(created, key))
            }
            IntegrationCommand::Show(at) => Ok(shown(remote.get(&at.path()?).await?)),
            IntegrationCommand::Update { at, name, feature_flags } => {
                let path = at.path()?;
                let found = remote.get(&path).await?;
                let flags = match feature_flags.as_slice() {
                    [] => found["featureFlags"].clone(),
                    [none] if none == "none" => json!([]),
                    flags => json!(flags),
                };
                let name = name.map_or_else(|| found["name"].clone(), Value::from);
                Ok(shown(remote.put(&path, &json!({ "name": name, "featureFlags": flags })).await?))
            }
            IntegrationCommand::RotateKey { at, consent } => {
                let path = at.path()?;
                remote.confirm(consent, &format!("end the key of integration {}", at.integration))?;
                let rotated = remote.post(&format!("{path}/key/rotate")).await?;
                let key = cell(&rotated, "key");
                Ok(Answer::line(rotated, key))
            }
            IntegrationCommand::Delete { at, consent } => {
                let what = format!("integration {} with its key", at.integration);
                remote.delete_object(consent, Deletion { path: at.path()?, name: at.integration, what }).await
            }
        }
    }
}

fn shown(integration: Value) -> Answer {
    let facts = vec![
        ("id", cell(&integration, "id")),
        ("name", cell(&integration, "name")),
        ("feature flags", cell(&integration, "featureFlags")),
        ("created", time(&integration, "createdAt")),
        ("changed", time(&integration, "updatedAt")),
    ];
    Answer::facts(integration, facts)
}

fn integrations(application: &str) -> anyhow::Result<String> {
    Ok(format!("{}/integration", app::path(application)?))
}

impl IntegrationAt {
    fn path(&self) -> anyhow::Result<String> {
        Ok(format!("{}/{}", integrations(&self.application)?, named("integration", &self.integration)?))
    }
}
