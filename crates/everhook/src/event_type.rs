//! `everhook event-type`: the kinds of events that endpoints can subscribe to.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::confirm::Consent;
use crate::exit::usage;
use crate::fields::Fields;
use crate::output::{Answer, Part};
use crate::remote::{Deletion, Remote, named};
use crate::table::{cell, cells, time};

#[derive(Debug, Subcommand)]
pub(crate) enum EventTypeCommand {
    /// List event types.
    List {
        /// List archived event types, too.
        #[arg(long)]
        archived: bool,
        /// Show at most this many event types.
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
    },
    /// Create an event type, or revive an archived one.
    #[command(after_help = "Examples:
  everhook event-type create invoice.paid --description 'An invoice was paid'
  everhook event-type create invoice.paid --description 'An invoice was paid' --schema invoice.schema.json")]
    Create {
        /// Name of the event type, such as invoice.paid.
        name: String,
        #[command(flatten)]
        fields: EventTypeFields,
    },
    /// Show an event type with its schemas.
    #[command(visible_alias = "get")]
    Show {
        /// Name of the event type, such as invoice.paid.
        name: String,
    },
    /// Change fields of an event type. Omitted fields stay unchanged.
    Update {
        /// Name of the event type, such as invoice.paid.
        name: String,
        #[command(flatten)]
        fields: EventTypeFields,
        /// Whether the event type is archived.
        #[arg(long, value_name = "TRUE OR FALSE")]
        archived: Option<bool>,
    },
    /// Create and update event types from the webhooks of an OpenAPI document, in YAML or JSON.
    #[command(after_help = "Examples:
  everhook event-type import openapi.yaml --dry-run
  everhook event-type import openapi.yaml --replace-all --yes")]
    Import {
        /// File with the document.
        file: PathBuf,
        /// Archive the event types that the document lacks.
        #[arg(long)]
        replace_all: bool,
        /// Only show the changes.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        consent: Consent,
    },
    /// Archive an event type: lists leave it out, and `create` revives it.
    Archive {
        /// Name of the event type, such as invoice.paid.
        name: String,
    },
    /// Delete an event type with its schemas for ever.
    Delete {
        /// Name of the event type, such as invoice.paid.
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(crate) struct EventTypeFields {
    /// Description for people.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Group under which the event type is listed, or none.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// File with the JSON Schema of the payload. Replaces all earlier versions.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Version of the schema.
    #[arg(long, value_name = "VERSION", default_value = "1", requires = "schema")]
    schema_version: String,
    /// Whether the event type is deprecated.
    #[arg(long, value_name = "TRUE OR FALSE")]
    deprecated: Option<bool>,
}

impl EventTypeFields {
    fn add_to(self, body: &mut Map<String, Value>) -> anyhow::Result<()> {
        body.add_text("description", self.description);
        body.add_text_or_none("groupName", self.group);
        if let Some(file) = self.schema {
            let schema = read_schema(&file)?;
            body.insert("schemas".to_owned(), json!({ self.schema_version: schema }));
        }
        if let Some(deprecated) = self.deprecated {
            body.insert("deprecated".to_owned(), Value::from(deprecated));
        }
        Ok(())
    }
}

impl EventTypeCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            EventTypeCommand::List { archived, limit } => list(remote, archived, limit).await,
            EventTypeCommand::Create { name, fields } => {
                let mut body = Map::new();
                body.add_text("name", Some(name));
                body.add_text("description", Some(String::new()));
                fields.add_to(&mut body)?;
                Ok(shown(remote.post_body("/event-type", &body).await?))
            }
            EventTypeCommand::Show { name } => Ok(shown(remote.get(&path(&name)?).await?)),
            EventTypeCommand::Update { name, fields, archived } => {
                let mut body = Map::new();
                fields.add_to(&mut body)?;
                if let Some(archived) = archived {
                    body.insert("archived".to_owned(), Value::from(archived));
                }
                if body.is_empty() {
                    return Err(usage("an option with a new value is required, such as --description"));
                }
                Ok(shown(remote.patch(&path(&name)?, &Value::from(body)).await?))
            }
            EventTypeCommand::Import { file, replace_all, dry_run, consent } => {
                let document =
                    std::fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
                if replace_all && !dry_run {
                    remote.confirm(consent, "archive the event types that the document lacks")?;
                }
                let body = json!({ "specRaw": document, "replaceAll": replace_all, "dryRun": dry_run });
                Ok(imported(remote.post_body("/event-type/import/openapi", &body).await?))
            }
            EventTypeCommand::Archive { name } => {
                remote.delete(&path(&name)?).await?;
                let text = format!("archived {name}: `everhook event-type create {name}` revives it");
                Ok(Answer::line(json!({ "archived": name }), text))
            }
            EventTypeCommand::Delete { name, consent } => {
                let what = format!("event type {name} with its schemas");
                remote
                    .delete_object(consent, Deletion { path: format!("{}?expunge=true", path(&name)?), name, what })
                    .await
            }
        }
    }
}

async fn list(remote: &Remote, archived: bool, limit: usize) -> anyhow::Result<Answer> {
    let path = if archived { "/event-type?include_archived=true" } else { "/event-type" };
    let found = remote.get_some(path, limit).await?;
    let row = |found: &Value| {
        let [name, group, description] = cells(found, ["name", "groupName", "description"]);
        [name, group, state(found), description, time(found, "createdAt")]
    };
    let list = Answer::found(found, ["NAME", "GROUP", "STATE", "DESCRIPTION", "CREATED"], row);
    Ok(list.if_empty("no event types: `everhook event-type create` creates one"))
}

fn shown(found: Value) -> Answer {
    let facts = vec![
        ("name", cell(&found, "name")),
        ("group", cell(&found, "groupName")),
        ("state", state(&found)),
        ("description", cell(&found, "description")),
        ("created", time(&found, "createdAt")),
        ("changed", time(&found, "updatedAt")),
    ];
    let schemas = found["schemas"].as_object().into_iter().flatten();
    let schemas = schemas.map(|(version, schema)| Part::Line(format!("schema, version {version}:\n{schema:#}")));
    let parts = std::iter::once(Part::Facts(facts)).chain(schemas).collect();
    Answer::object(found, parts)
}

fn state(found: &Value) -> String {
    let named = [("archived", "archived"), ("deprecated", "deprecated")];
    let given = named.iter().find(|(key, _)| found[*key] == true).map(|(_, name)| *name);
    given.unwrap_or("active").to_owned()
}

fn read_schema(file: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| usage(format!("{} is not JSON: {error}", file.display())))
}

fn imported(answer: Value) -> Answer {
    let data = &answer["data"];
    let would =
        data["to_modify"].as_array().into_iter().flatten().map(|found| format!("would change {}", cell(found, "name")));
    let did = data["modified"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let lines: Vec<_> = did.map(|name| format!("changed {name}")).chain(would).collect();
    let text = if lines.is_empty() { "nothing to change".to_owned() } else { lines.join("\n") };
    Answer::line(answer, text)
}

/// The path of an event type.
pub(crate) fn path(name: &str) -> anyhow::Result<String> {
    Ok(format!("/event-type/{}", named("event type", name)?))
}
