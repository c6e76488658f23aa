//! `everhook secrets`: the keys that seal secrets in the database. See docs/secrets.md.

use anyhow::Context;
use clap::Subcommand;
use everhook_core::seal::SealKeyId;
use everhook_sqlite::{SealSource, key_file};
use everhook_store::seal::{Rotated, add_key, generate_key};

use crate::cli::{SettingsArgs, beside_with, print};
use crate::config::{Config, StoreConfig};
use crate::exit::usage;
use crate::operator::{LoggedChange, OperatorArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Print a new key, for a key file or EVERHOOK_SECRETS_KEYS.
    Generate,
    /// Seal every secret in the database with the first key, also while servers run.
    #[command(after_help = "Examples:
  everhook secrets rotate --new-key --data /var/lib/everhook   make a new key, and seal everything with it
  everhook secrets rotate --config /etc/everhook.toml          PostgreSQL: once every replica has the new key

Each secret is replaced by itself, so that other work goes on. An interrupted rotation is continued by the next one.
Backups need the keys of their time: keep old keys as long as the backups.")]
    Rotate {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Make a new key and put it before the others in the key file. For the embedded database only.
        #[arg(long)]
        new_key: bool,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

impl SecretsCommand {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            SecretsCommand::Generate => print(&format!("{}\n", generate_key().expose())),
            SecretsCommand::Rotate { settings, new_key, operator } => {
                let operator = operator.operator()?;
                let change =
                    LoggedChange { action: "secrets rotate", object: "/secrets".to_owned(), ..Default::default() };
                let prepare = |config: &Config| if new_key { add_new_key(config) } else { Ok(()) };
                let rotated = beside_with(settings, prepare, async |opened| {
                    operator.logged(&*opened.store, &opened.ids, change, opened.rotate_secrets()).await
                })?;
                print(&describe(&rotated))
            }
        }
    }
}

/// Puts a new key into the key file. A server reads the file again when it meets the key.
fn add_new_key(config: &Config) -> anyhow::Result<()> {
    let file = match (&config.store, &config.secrets) {
        (StoreConfig::Sqlite { folder }, SealSource::Folder) => key_file(folder),
        (StoreConfig::Sqlite { .. }, SealSource::File(file)) => file.clone(),
        _ => {
            return Err(usage(
                "--new-key is for the key file of the embedded database: otherwise, put the output of `everhook secrets \
                 generate` before the other keys on every replica, then run this command without --new-key",
            ));
        }
    };
    if !file.exists() {
        return Err(usage(format!("{} does not exist: start the server once, which makes it", file.display())));
    }
    add_key(&file, &generate_key()).context("no key was added, and nothing was sealed")
}

fn describe(rotated: &Rotated) -> String {
    let Rotated { key, sealed, retired } = rotated;
    let mut text = format!("sealed {sealed} secrets with the key {key}\n");
    if !retired.is_empty() {
        let retired = retired.iter().map(SealKeyId::to_string).collect::<Vec<_>>().join(", ");
        text += &format!("no longer needed: {retired}; keep it as long as you keep backups from before\n");
    }
    text
}
