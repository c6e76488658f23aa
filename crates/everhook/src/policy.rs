//! `everhook policy`: the settings of deliveries, of the environment, an application or an endpoint.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app;
use crate::endpoint::At;
use crate::exit::usage;
use crate::output::{Answer, Part, Table};
use crate::remote::{Remote, query};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the settings of the environment, an application or an endpoint, without inherited ones.
    Show(Level),
    /// Show the settings in force, and the level that each comes from.
    #[command(after_help = "Examples:
  everhook policy effective
  everhook policy effective --app acme --endpoint ep_2d… --event-type invoice.paid")]
    Effective {
        #[command(flatten)]
        level: Level,
        /// Show the settings for messages of this event type.
        #[arg(long, value_name = "NAME", requires = "endpoint")]
        event_type: Option<String>,
    },
    /// Change settings. Other settings stay unchanged, and null removes one.
    #[command(after_help = "Examples:
  everhook policy set '{\"timeoutSeconds\": 10}'
  everhook policy set '{\"retry\": {\"maxAttempts\": 5}}' --app acme
  everhook policy set '{\"rate\": {\"count\": 10, \"seconds\": 1}, \"paused\": null}' --app acme --endpoint ep_2d…")]
    Set {
        /// Settings as a JSON object, such as '{"timeoutSeconds": 10}'.
        settings: String,
        #[command(flatten)]
        level: Level,
    },
}

/// The owner of settings.
#[derive(Debug, Args)]
pub(crate) struct Level {
    /// Id or uid of an application [default: the environment].
    #[arg(long = "app", alias = "application", value_name = "ID or UID")]
    application: Option<String>,
    /// Id or uid of an endpoint of the application.
    #[arg(long, value_name = "ID or UID", requires = "application")]
    endpoint: Option<String>,
}

impl PolicyCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            PolicyCommand::Show(level) => Ok(shown(level.own(remote).await?)),
            PolicyCommand::Effective { level, event_type } => {
                let path = match level.path()? {
                    Some(path) => format!("{path}/policy{}", query(&[("event_type", event_type)])),
                    None => "/environment/effective-policy".to_owned(),
                };
                Ok(effective(remote.get(&path).await?))
            }
            PolicyCommand::Set { settings, level } => {
                let changes: Value = serde_json::from_str(&settings)
                    .map_err(|error| usage(format!("the settings are not JSON: {error}")))?;
                if !changes.is_object() {
                    return Err(usage("the settings must be a JSON object, such as '{\"timeoutSeconds\": 10}'"));
                }
                Ok(shown(level.change(remote, changes).await?))
            }
        }
    }
}

impl Level {
    pub(crate) fn of_endpoint(at: At) -> Level {
        Level { application: Some(at.application), endpoint: Some(at.endpoint) }
    }

    /// The path of the application or endpoint; none for the environment.
    fn path(&self) -> anyhow::Result<Option<String>> {
        match (&self.application, &self.endpoint) {
            (Some(application), Some(endpoint)) => {
                At { application: application.clone(), endpoint: endpoint.clone() }.path().map(Some)
            }
            (Some(application), None) => app::path(application).map(Some),
            (None, _) => Ok(None),
        }
    }

    async fn own(&self, remote: &Remote) -> anyhow::Result<Value> {
        Ok(match self.path()? {
            Some(path) => remote.get(&path).await?["policy"].take(),
            None => remote.get(ENVIRONMENT).await?,
        })
    }

    /// Merges changes into the settings, and returns all of them.
    pub(crate) async fn change(&self, remote: &Remote, changes: Value) -> anyhow::Result<Value> {
        let mut policy = self.own(remote).await?;
        merge(&mut policy, changes);
        Ok(match self.path()? {
            Some(path) => remote.patch(&path, &json!({ "policy": policy })).await?["policy"].take(),
            None => remote.put(ENVIRONMENT, &policy).await?,
        })
    }
}

const ENVIRONMENT: &str = "/environment/policy";

/// Merges changes into a value, as RFC 7396 does: null removes a member.
fn merge(into: &mut Value, changes: Value) {
    let Value::Object(changes) = changes else {
        *into = changes;
        return;
    };
    let mut members = into.as_object_mut().map(std::mem::take).unwrap_or_default();
    for (name, change) in changes {
        if change.is_null() {
            members.remove(&name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), change);
        }
    }
    *into = Value::Object(members);
}

fn shown(policy: Value) -> Answer {
    let has_settings = policy.as_object().is_some_and(|settings| !settings.is_empty());
    let text = if has_settings { format!("{policy:#}") } else { "no settings: all are inherited".to_owned() };
    Answer::line(policy, text)
}

fn effective(policy: Value) -> Answer {
    let settings = policy.as_object().into_iter().flatten().filter(|(_, setting)| setting.is_object());
    let table = Table::new(["SETTING", "VALUE", "FROM"], settings, |(name, setting)| {
        let value = setting["value"].as_str().map_or_else(|| setting["value"].to_string(), str::to_owned);
        let from = setting["from"].as_str().unwrap_or_default();
        let from =
            if setting["forEventType"] == true { format!("{from}, for the event type") } else { from.to_owned() };
        [name.clone(), value, from]
    });
    Answer::object(policy, vec![Part::Table(table)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_merged_and_null_removes() {
        let mut policy = json!({ "paused": true, "retry": { "maxAttempts": 5, "jitterPercent": 10 } });
        merge(&mut policy, json!({ "paused": null, "retry": { "maxAttempts": 3 }, "rate": "none" }));
        assert_eq!(policy, json!({ "retry": { "maxAttempts": 3, "jitterPercent": 10 }, "rate": "none" }));
        let mut none = Value::Null;
        merge(&mut none, json!({ "timeoutSeconds": 5 }));
        assert_eq!(none, json!({ "timeoutSeconds": 5 }));
    }
}
