//! `everhook app`: applications, which own endpoints and messages.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use crate::confirm::Consent;
use crate::exit::usage;
use crate::fields::Fields;
use crate::output::Answer;
use crate::remote::{Deletion, Remote, named};
use crate::table::{cell, cells, pairs, time};

#[derive(Debug, Subcommand)]
pub(crate) enum AppCommand {
    /// List applications.
    List {
        /// Show at most this many applications.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Create an application and print its id.
    #[command(after_help = "Examples:
  everhook app create 'Acme Ltd' --uid acme
  everhook app create 'Acme Ltd' --uid acme --metadata plan=gold")]
    Create {
        /// Display name of the application.
        name: String,
        #[command(flatten)]
        fields: AppFields,
    },
    /// Show an application.
    #[command(visible_alias = "get")]
    Show {
        /// Id or uid of the application.
        application: String,
    },
    /// Change fields of an application. Omitted fields stay unchanged.
    #[command(after_help = "Examples:
  everhook app update acme --name 'Acme Limited'
  everhook app update acme --metadata plan=silver --throttle-rate none")]
    Update {
        /// Id or uid of the application.
        application: String,
        /// New display name of the application.
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        #[command(flatten)]
        fields: AppFields,
    },
    /// Delete an application with its endpoints. Nothing is delivered to them any more.
    Delete {
        /// Id or uid of the application.
        application: String,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AppFields {
    /// Your own id of the application, usable in its place, or none.
    #[arg(long, value_name = "UID")]
    uid: Option<String>,
    /// Deliveries per second of each endpoint, or none.
    #[arg(long, value_name = "COUNT")]
    throttle_rate: Option<String>,
    /// Metadata that Everhook stores and never interprets; repeatable. Replaces earlier metadata.
    #[arg(long = "metadata", value_name = "KEY=VALUE")]
    metadata: Vec<String>,
}

impl AppFields {
    fn add_to(self, body: &mut Map<String, Value>) -> anyhow::Result<()> {
        body.add_text_or_none("uid", self.uid);
        body.add_number_or_none("throttleRate", self.throttle_rate)?;
        body.add_pairs("metadata", &self.metadata)
    }
}

impl AppCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            AppCommand::List { limit } => {
                let found = remote.get_some("/app", limit).await?;
                let row = |app: &Value| {
                    let [id, uid, name, rate] = cells(app, ["id", "uid", "name", "throttleRate"]);
                    [id, uid, name, rate, time(app, "createdAt")]
                };
                let list = Answer::found(found, ["ID", "UID", "NAME", "THROTTLE RATE", "CREATED"], row);
                Ok(list.if_empty("no applications: `everhook app create` creates one"))
            }
            AppCommand::Create { name, fields } => {
                let mut body = Map::new();
                body.add_text("name", Some(name));
                fields.add_to(&mut body)?;
                let created = remote.post_body("/app", &body).await?;
                let id = cell(&created, "id");
                Ok(Answer::line(created, id))
            }
            AppCommand::Show { application } => Ok(shown(remote.get(&path(&application)?).await?)),
            AppCommand::Update { application, name, fields } => {
                let mut body = Map::new();
                body.add_text("name", name);
                fields.add_to(&mut body)?;
                if body.is_empty() {
                    return Err(usage("--name, --uid, --throttle-rate or --metadata is required"));
                }
                Ok(shown(remote.patch(&path(&application)?, &Value::from(body)).await?))
            }
            AppCommand::Delete { application, consent } => {
                let what = format!("application {application} with its endpoints");
                remote.delete_object(consent, Deletion { path: path(&application)?, name: application, what }).await
            }
        }
    }
}

fn shown(app: Value) -> Answer {
    let facts = vec![
        ("id", cell(&app, "id")),
        ("uid", cell(&app, "uid")),
        ("name", cell(&app, "name")),
        ("throttle rate", cell(&app, "throttleRate")),
        ("metadata", pairs(&app, "metadata")),
        ("created", time(&app, "createdAt")),
        ("changed", time(&app, "updatedAt")),
    ];
    Answer::facts(app, facts)
}

/// The path of an application.
pub(crate) fn path(application: &str) -> anyhow::Result<String> {
    Ok(format!("/app/{}", named("application", application)?))
}
