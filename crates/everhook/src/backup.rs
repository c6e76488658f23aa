//! `everhook backup` and `everhook restore`: copies of the embedded database.

use std::path::{Path, PathBuf};

use anyhow::Context;
use everhook_sqlite::{Existing, SealSource, key_file};
use everhook_store::seal::write_keys;

use crate::cli::print;
use crate::config::{Config, StoreConfig};
use crate::confirm::Consent;
use crate::exit::usage;
use crate::operator::{LoggedChange, Operator, not_in_log};
use crate::progress::{Progress, bytes};
use crate::store;

/// Copies the store to a new file.
pub(crate) async fn back_up(config: &Config, file: &Path, operator: Operator) -> anyhow::Result<()> {
    let folder = folder(config)?;
    let copy = async {
        let mut progress = Progress::new("copied");
        Ok(everhook_sqlite::back_up(folder, file, |copied| progress.set(copied.done, copied.total))?)
    };
    let (size, not_logged) = match store::open_beside(config).await {
        Ok(opened) => {
            let change = LoggedChange { action: "backup", object: "/store".to_owned(), ..LoggedChange::default() };
            let size = operator.logged(&*opened.store, &opened.ids, change, copy).await;
            opened.close().await;
            (size?, None)
        }
        // A store of an earlier version is copied before it is upgraded.
        Err(error) => (copy.await?, Some(error)),
    };
    let mut text = format!("backed up {} to {} ({})\n", folder.display(), file.display(), bytes(size));
    if let Some(keys) = own_keys(config, folder).filter(|keys| keys.exists()) {
        let copy = keys_beside(file);
        let content = std::fs::read_to_string(&keys).with_context(|| format!("could not read {}", keys.display()))?;
        write_keys(&copy, &content)?;
        text += &format!("the keys of its secrets are in {}: keep them apart from the backup\n", copy.display());
    }
    if let Some(error) = not_logged {
        text += &not_in_log(&error);
    }
    print(&text)
}

/// The key file in the data folder, unless the keys are elsewhere.
fn own_keys(config: &Config, folder: &Path) -> Option<PathBuf> {
    matches!(config.secrets, SealSource::Folder).then(|| key_file(folder))
}

/// The key file beside a backup.
fn keys_beside(backup: &Path) -> PathBuf {
    let mut name = backup.as_os_str().to_owned();
    name.push(".keys");
    name.into()
}

/// Adds the keys of a backup to the key file of the folder. Returns a line for the operator.
fn restore_keys(keys: &Path, backup: &Path) -> anyhow::Result<String> {
    let copy = keys_beside(backup);
    let restored = match std::fs::read_to_string(&copy) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && keys.exists() => return Ok(String::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(format!(
                "{} does not exist: if the server does not start, put the key file of the store at {}\n",
                copy.display(),
                keys.display()
            ));
        }
        Err(error) => return Err(error).with_context(|| format!("could not read {}", copy.display())),
    };
    let mut text = if keys.exists() {
        std::fs::read_to_string(keys).with_context(|| format!("could not read {}", keys.display()))?
    } else {
        String::new()
    };
    let known: Vec<String> = text.lines().map(str::to_owned).collect();
    let missing: Vec<&str> = restored.lines().filter(|line| !known.iter().any(|known| known == line)).collect();
    if missing.is_empty() {
        return Ok(String::new());
    }
    for line in missing {
        text.push_str(line);
        text.push('\n');
    }
    write_keys(keys, &text)?;
    Ok(format!("added the keys of its secrets to {}\n", keys.display()))
}

/// Puts a backup into the data folder.
pub(crate) async fn restore(
    config: &Config,
    file: &Path,
    existing: Existing,
    consent: Consent,
    operator: Operator,
) -> anyhow::Result<()> {
    let folder = folder(config)?;
    if existing == Existing::MoveAside {
        consent.to(&format!("replace the store in {} by {}", folder.display(), file.display()), None)?;
    }
    let restored = everhook_sqlite::restore(file, folder, existing)?;
    let mut text = format!("restored {} to {}\n", file.display(), restored.file.display());
    if let Some(replaced) = restored.replaced {
        text += &format!("the files of the old store are in {}\n", replaced.display());
    }
    if let Some(keys) = own_keys(config, folder) {
        text += &restore_keys(&keys, file)?;
    }
    if let Err(error) = log_restore(config, operator).await {
        text += &not_in_log(&error);
    }
    text += "egress is paused: a server on this store accepts messages and sends nothing until `everhook egress \
             resume`\n";
    print(&text)
}

/// Logs the command in the restored store, which did not exist before.
async fn log_restore(config: &Config, operator: Operator) -> anyhow::Result<()> {
    let opened = store::open_beside(config).await?;
    let change = LoggedChange { action: "restore", object: "/store".to_owned(), ..LoggedChange::default() };
    operator.log_done(&opened, change).await
}

fn folder(config: &Config) -> anyhow::Result<&PathBuf> {
    match &config.store {
        StoreConfig::Sqlite { folder } => Ok(folder),
        StoreConfig::Postgres { .. } => Err(usage(
            "the data is in PostgreSQL, and this command copies the embedded database only: use pg_dump and pg_restore, \
             or pg_basebackup; run `everhook egress pause` on a restored database before a server uses it",
        )),
    }
}
