//! The first API key of an empty store: the configured one, or a new one.
//!
//! A new key is printed to a terminal. Without a terminal, stdout is a log that others read and store, so the key is
//! written to a file that only its owner can read.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::Context;
use everhook_core::api_key::ApiKey;
use tracing::warn;

use crate::config::{Config, StoreConfig};
use crate::keys::{self, Wanted};
use crate::operator::Operator;
use crate::private::write_private;
use crate::store::Opened;
use everhook_store::query;
use everhook_store::store::Reads;

/// Name of the key file in the data folder.
const FILE: &str = "first-api-key";
/// Name of the key file in the working directory, if the data is in PostgreSQL.
const FILE_BESIDE: &str = "everhook-first-api-key";

pub(crate) enum FirstKey {
    /// The store already has keys.
    NotNeeded,
    /// `bootstrap_key` is the first key.
    Given,
    /// A new key, to be shown once.
    New(ApiKey),
    /// A new key was written to this file.
    Filed(PathBuf),
    /// The file could not be written, and no key was created.
    None,
}

impl FirstKey {
    /// Creates the first key of an empty store.
    pub(crate) async fn ensure(config: &Config, opened: &Opened) -> anyhow::Result<FirstKey> {
        let is_empty = opened.store.read(query::Keys {}).await?.is_empty();
        if let Some(key) = &config.bootstrap_key {
            return given(opened, key, is_empty).await;
        }
        if !is_empty {
            return Ok(FirstKey::NotNeeded);
        }
        let key = keys::generate();
        if std::io::stdout().is_terminal() {
            keep(opened, &key).await?;
            return Ok(FirstKey::New(key));
        }
        let file = file(config)?;
        if let Err(error) = write_private(&file, &format!("{}\n", key.expose())) {
            let shown = file.display();
            warn!(
                error = &error as &dyn std::error::Error,
                "could not write the first API key to {shown}: no key was created"
            );
            return Ok(FirstKey::None);
        }
        keep(opened, &key).await?;
        Ok(FirstKey::Filed(file))
    }

    /// Returns the text about the key for stdout.
    pub(crate) fn greeting(&self, base: &str) -> String {
        let try_it = |key: &str| {
            format!(
                "Try it:\n\n    curl -sS {base}/api/v1/app -H \"Authorization: Bearer {key}\" \
                 -d '{{\"name\": \"First\"}}'\n\nMore keys: everhook key create. Dashboard: {base}/ API: {base}/docs\n"
            )
        };
        match self {
            FirstKey::NotNeeded => String::new(),
            FirstKey::Given => "the first API key is the configured `bootstrap_key`\n".to_owned(),
            FirstKey::New(key) => {
                let key = key.expose();
                format!("\nYour first API key, shown only this once:\n\n    {key}\n\n{}", try_it(key))
            }
            FirstKey::Filed(file) => {
                let file = file.display();
                let where_it_is = "which only its owner can read: copy the key and delete the file";
                format!("\nThe first API key is in {file}, {where_it_is}.\n\n{}", try_it(&format!("$(cat {file})")))
            }
            FirstKey::None => {
                "there is no API key yet: run `everhook key create`, or set EVERHOOK_BOOTSTRAP_KEY and start again\n"
                    .to_owned()
            }
        }
    }
}

async fn given(opened: &Opened, key: &ApiKey, is_empty: bool) -> anyhow::Result<FirstKey> {
    if opened.store.read(query::FindKey { hash: key.hash() }).await?.is_some() {
        return Ok(FirstKey::NotNeeded);
    }
    if !is_empty {
        warn!(
            "`bootstrap_key` is ignored, because the store has other keys: use `everhook key create` for another key"
        );
        return Ok(FirstKey::NotNeeded);
    }
    if let Err(error) = keep(opened, key).await {
        // Another replica may have created the same key first.
        if opened.store.read(query::FindKey { hash: key.hash() }).await?.is_none() {
            return Err(error);
        }
    }
    Ok(FirstKey::Given)
}

async fn keep(opened: &Opened, key: &ApiKey) -> anyhow::Result<()> {
    keys::keep(&*opened.store, &opened.ids, &Operator::NOBODY, key, &Wanted::first()).await
}

fn file(config: &Config) -> anyhow::Result<PathBuf> {
    let file = match &config.store {
        StoreConfig::Sqlite { folder } => folder.join(FILE),
        StoreConfig::Postgres { .. } => PathBuf::from(FILE_BESIDE),
    };
    std::path::absolute(file).context("could not determine the working directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_is_shown_the_key() {
        let key = keys::generate();
        let greet = |first: FirstKey| first.greeting("http://127.0.0.1:8071");
        let shown = greet(FirstKey::New(key.clone()));
        assert!(shown.contains(&format!("\n    {}\n", key.expose())), "{shown}");
        assert!(shown.contains(&format!("Bearer {}\"", key.expose())), "{shown}");
        let filed = greet(FirstKey::Filed("/data/first-api-key".into()));
        assert!(filed.contains("/data/first-api-key") && !filed.contains("ehk_"), "{filed}");
        assert_eq!(greet(FirstKey::NotNeeded), "");
    }
}
