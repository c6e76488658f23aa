//! `everhook endpoint auth`: how deliveries to an endpoint prove who sends them, and whom they trust.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::confirm::Consent;
use crate::endpoint::At;
use crate::exit::{Exit, Failure};
use crate::output::Answer;
use crate::remote::Remote;
use crate::table::cell;

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Show how deliveries to an endpoint authenticate. Secrets are not shown.
    Show(At),
    /// Send a user name and a password with every delivery (HTTP Basic).
    #[command(after_help = "Example:
  everhook endpoint auth basic acme ep_2d… billing - < password-file")]
    Basic {
        #[command(flatten)]
        at: At,
        /// User name, without a colon.
        username: String,
        /// Password, or - to read it from stdin.
        password: String,
    },
    /// Send an OAuth 2.0 access token with every delivery.
    #[command(after_help = "Example:
  everhook endpoint auth oauth acme ep_2d… https://issuer.example.com/token billing - --scope hooks < secret-file")]
    Oauth {
        #[command(flatten)]
        at: At,
        /// URL that issues tokens.
        token_url: String,
        /// Id of the client at the issuer.
        client_id: String,
        /// Secret of the client, or - to read it from stdin.
        client_secret: String,
        /// Scope to request; repeatable.
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Place of the client's secret in a token request.
        #[arg(long, value_name = "METHOD", default_value = "basic")]
        method: Method,
    },
    /// Present a client certificate to the receiver (mutual TLS).
    Mtls {
        #[command(flatten)]
        at: At,
        /// PEM file with the certificate, its chain and the private key without a password.
        file: PathBuf,
    },
    /// Trust only receivers whose certificate comes from these authorities.
    Ca {
        #[command(flatten)]
        at: At,
        /// PEM file with the certificates of the authorities.
        file: PathBuf,
    },
    /// Remove one kind of authentication.
    Remove {
        #[command(flatten)]
        at: At,
        /// Kind to remove.
        kind: Kind,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Method {
    /// In a header of its own.
    Basic,
    /// In the body.
    Post,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    Basic,
    Oauth,
    Mtls,
    Ca,
}

impl AuthCommand {
    pub(crate) async fn ask(self, remote: &Remote) -> anyhow::Result<Answer> {
        match self {
            AuthCommand::Show(at) => show(remote, &at).await,
            AuthCommand::Basic { at, username, password } => {
                let body = json!({ "username": username, "password": given(password)? });
                put(remote, &at, "basic-auth", &body).await
            }
            AuthCommand::Oauth { at, token_url, client_id, client_secret, scopes, method } => {
                let method = match method {
                    Method::Basic => "clientSecretBasic",
                    Method::Post => "clientSecretPost",
                };
                let body = json!({
                    "grantType": "clientCredentials",
                    "authMethod": method,
                    "clientId": client_id,
                    "clientSecret": given(client_secret)?,
                    "tokenUrl": token_url,
                    "scopes": scopes,
                });
                put(remote, &at, "oauth", &body).await
            }
            AuthCommand::Mtls { at, file } => put(remote, &at, "mtls", &json!({ "identity": read(&file)? })).await,
            AuthCommand::Ca { at, file } => put(remote, &at, "ca", &json!({ "cert": read(&file)? })).await,
            AuthCommand::Remove { at, kind, consent } => {
                let path = at.path()?;
                let (name, part) = match kind {
                    Kind::Basic => ("the password", "basic-auth"),
                    Kind::Oauth => ("the OAuth client", "oauth"),
                    Kind::Mtls => ("the client certificate", "mtls"),
                    Kind::Ca => ("the authorities", "ca"),
                };
                remote.confirm(consent, &format!("remove {name} of endpoint {}", at.endpoint))?;
                match kind {
                    Kind::Ca => drop(remote.put(&format!("{path}/ca"), &json!({ "cert": null })).await?),
                    Kind::Basic | Kind::Oauth | Kind::Mtls => remote.delete(&format!("{path}/{part}")).await?,
                }
                Ok(Answer::line(json!({ "removed": part }), format!("removed {name} of {}", at.endpoint)))
            }
        }
    }
}

async fn show(remote: &Remote, at: &At) -> anyhow::Result<Answer> {
    let path = at.path()?;
    // Without a password, the server has nothing to return.
    let basic = match remote.get(&format!("{path}/basic-auth")).await {
        Err(error) if Failure::exit(&error) == Exit::NotFound => Value::Null,
        found => found?,
    };
    let oauth = remote.get(&format!("{path}/oauth-config")).await?;
    let mtls = remote.get(&format!("{path}/mtls-config")).await?;
    let ca = remote.get(&format!("{path}/ca")).await?;
    let set = |is_set: bool| if is_set { "set" } else { "none" }.to_owned();
    let client = &oauth["config"];
    let oauth_text = match oauth["enabled"] == true {
        true => format!("{} at {}", cell(client, "clientId"), cell(client, "tokenUrl")),
        false => "none".to_owned(),
    };
    let facts = vec![
        ("basic user", if basic.is_null() { "none".to_owned() } else { cell(&basic, "username") }),
        ("oauth client", oauth_text),
        ("client certificate", set(mtls["enabled"] == true)),
        ("authorities", set(!ca["cert"].is_null())),
    ];
    let data = json!({ "basicAuth": basic, "oauth": oauth, "mtls": mtls, "ca": ca });
    Ok(Answer::facts(data, facts))
}

async fn put(remote: &Remote, at: &At, part: &str, body: &Value) -> anyhow::Result<Answer> {
    remote.put(&format!("{}/{part}", at.path()?), body).await?;
    Ok(Answer::line(json!({ "endpoint": at.endpoint, "set": part }), format!("set {part} of {}", at.endpoint)))
}

/// Returns an argument, or the first line of stdin for `-`.
fn given(text: String) -> anyhow::Result<String> {
    if text != "-" {
        return Ok(text);
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("could not read stdin")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn read(file: &PathBuf) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))
}
