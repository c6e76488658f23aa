//! `everhook key`: API keys, in the store of this machine or over the API of a running server.
//!
//! With `--url`, `--key` or `--context` a command uses the API, whose rules hold. Otherwise it opens the store, beside
//! a server that may use it, and needs no key.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::client::ask;
use crate::cli::{SettingsArgs, beside, print};
use crate::confirm::Consent;
use crate::exit::usage;
use crate::keys::{self, Wanted};
use crate::operator::OperatorArgs;
use crate::output::Answer;
use crate::remote::{ClientArgs, Remote};
use crate::table::{cell, cells, time};
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key and print it. The key is shown only once.
    #[command(after_help = "Examples:
  everhook key create --name billing --scope write            send messages and jobs
  everhook key create --name dashboard --scope read
  everhook key create --name acme --scope write --application acme --right change-url
  everhook key create --name contractor --scope operate --expires-in 30d --url https://hooks.example.com")]
    Create {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        new: NewKeyArgs,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Print a new key for EVERHOOK_BOOTSTRAP_KEY. An empty store accepts it as its first key.
    Generate,
    /// List all keys: name, scope, last use and end. The keys themselves are not stored.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Show a key of a server: its scope, rights, last use and end.
    #[command(visible_alias = "get")]
    Show {
        #[command(flatten)]
        client: ClientArgs,
        /// Id of the key, as `everhook key list` shows it.
        id: String,
    },
    /// Revoke a key for ever. Every replica rejects it within 5 seconds.
    Revoke {
        #[command(flatten)]
        place: Place,
        /// Id of the key, as `everhook key list` shows it.
        id: String,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

/// The store of this machine, or a server.
#[derive(Debug, Args)]
pub(crate) struct Place {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    client: ClientArgs,
}

impl OperatorArgs {
    /// Refuses a person for a command over the API, which logs the key that it is called with.
    fn none_for_server(&self) -> anyhow::Result<()> {
        if self.is_given() {
            return Err(usage("--principal is for the store of this machine: a server logs the key of the command"));
        }
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct NewKeyArgs {
    /// Name of the key, for lists and the audit log.
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,
    /// Scope of the key: read, write, operate (everything in its environment) or admin (everything).
    #[arg(long, value_name = "SCOPE", default_value = "operate")]
    scope: String,
    /// Right beyond the scope, repeatable: reveal-secret, change-url or none. By default, operate and admin have both.
    #[arg(long = "right", value_name = "RIGHT")]
    rights: Vec<String>,
    /// Restrict the key to one application, by its id or uid.
    #[arg(long, alias = "app", value_name = "APP")]
    application: Option<String>,
    /// Let the key end after this time, such as 30d.
    #[arg(long, value_name = "DURATION", value_parser = when::span)]
    expires_in: Option<Duration>,
    /// Environment of the key, created if it does not exist [default: default]. A server uses that of its own key.
    #[arg(long, value_name = "NAME", conflicts_with = "admin")]
    environment: Option<String>,
    /// Create an admin key, for routes that span environments: the same as --scope admin.
    #[arg(long, conflicts_with = "scope")]
    admin: bool,
}

impl KeyCommand {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            KeyCommand::Generate => print(&format!("{}\n", keys::generate().expose())),
            KeyCommand::Create { place, new, operator } if place.client.names_server() => {
                operator.none_for_server()?;
                ask(&place.client, async |remote| create(remote, new).await)
            }
            KeyCommand::Create { place, new, operator } => {
                // Invalid arguments are reported before the store is opened.
                let (wanted, key, operator) = (new.wanted()?, keys::generate(), operator.operator()?);
                beside(place.settings, async |opened| {
                    keys::keep(&*opened.store, &opened.ids, &operator, &key, &wanted).await
                })?;
                print(&format!("{}\n", key.expose()))
            }
            KeyCommand::List { place } if place.client.names_server() => ask(&place.client, async |remote| {
                let keys = remote.get_data("/key").await?;
                Ok(Answer::list(keys, HEADS, row))
            }),
            KeyCommand::List { place } => {
                let format = place.client.format.format();
                beside(place.settings, async |opened| keys::list(&*opened.store).await)?.print(format)
            }
            KeyCommand::Show { client, id } => {
                let id = keys::handle(&id)?;
                ask(&client, async |remote| Ok(shown(remote.get(&format!("/key/{id}")).await?)))
            }
            KeyCommand::Revoke { place, id, consent, operator } if place.client.names_server() => {
                operator.none_for_server()?;
                let id = keys::handle(&id)?;
                ask(&place.client, async |remote| {
                    remote.confirm(consent, &format!("revoke key {id} for ever"))?;
                    remote.delete(&format!("/key/{id}")).await?;
                    Ok(Answer::line(json!({ "revoked": id }), format!("revoked {id}")))
                })
            }
            KeyCommand::Revoke { place, id, consent, operator } => {
                let (id, operator) = (keys::handle(&id)?, operator.operator()?);
                consent.to(&format!("revoke key {id} for ever"), None)?;
                beside(place.settings, async |opened| keys::revoke(&*opened.store, &opened.ids, &operator, id).await)?;
                print(&format!("revoked {id}\n"))
            }
        }
    }
}

/// Creates a key over the API.
async fn create(remote: &Remote, new: NewKeyArgs) -> anyhow::Result<Answer> {
    if new.environment.is_some() {
        return Err(usage("--environment is for the store of this machine: a server uses that of its own key"));
    }
    if new.name.is_empty() {
        return Err(usage("--name is required for a key of a server"));
    }
    let expires_at = new.expires_in.map(|span| when::now().plus(span));
    let body = json!({
        "name": new.name,
        "scope": new.scope_name(),
        "rights": new.right_names(),
        "applicationId": new.application,
        "expiresAt": expires_at,
    });
    let made = remote.post_body("/key", &body).await?;
    let key = made["key"].as_str().unwrap_or_default().to_owned();
    Ok(Answer::line(made, key))
}

impl NewKeyArgs {
    fn scope_name(&self) -> &str {
        if self.admin { "admin" } else { &self.scope }
    }

    /// The rights as given; none stands for an empty list.
    fn right_names(&self) -> Option<Vec<&str>> {
        let names = || self.rights.iter().map(String::as_str).filter(|name| *name != "none").collect();
        (!self.rights.is_empty()).then(names)
    }

    fn wanted(&self) -> anyhow::Result<Wanted> {
        Wanted::new(keys::WantedText {
            name: &self.name,
            scope: self.scope_name(),
            rights: self.right_names(),
            environment: self.environment.as_deref(),
            application: self.application.as_deref(),
            expires_in: self.expires_in,
        })
    }
}

fn shown(key: Value) -> Answer {
    let [id, name, scope, environment, hint, created, used, state] = row(&key);
    let facts = vec![
        ("id", id),
        ("name", name),
        ("scope", scope),
        ("rights", cell(&key, "rights")),
        ("environment", environment),
        ("application", cell(&key, "applicationId")),
        ("key", hint),
        ("state", state),
        ("last used", used),
        ("created", created),
    ];
    Answer::facts(key, facts)
}

pub(crate) const HEADS: [&str; 8] = ["ID", "NAME", "SCOPE", "ENVIRONMENT", "KEY", "CREATED", "LAST USED", "STATE"];

pub(crate) fn row(key: &Value) -> [String; 8] {
    let [id, name, scope, environment, hint] = cells(key, ["id", "name", "scope", "environment", "hint"]);
    let (revoked, expires) = (time(key, "revokedAt"), time(key, "expiresAt"));
    let state = match key["state"].as_str() {
        Some("revoked") => format!("revoked {revoked}"),
        Some("expired") => format!("expired {expires}"),
        _ if expires.is_empty() => "active".to_owned(),
        _ => format!("active until {expires}"),
    };
    [id, name, scope, environment, hint, time(key, "createdAt"), time(key, "lastUsedAt"), state]
}
