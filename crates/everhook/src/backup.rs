//! `everhook backup` and `everhook restore`: copies of the embedded database.

use std::path::{Path, PathBuf};

use everhook_sqlite::Existing;

use crate::cli::print;
use crate::config::{Config, StoreConfig};
use crate::confirm::Consent;
use crate::exit::usage;
use crate::progress::{Progress, bytes};

/// Copies the store to a new file.
pub(crate) fn back_up(config: &Config, file: &Path) -> anyhow::Result<()> {
    let folder = folder(config)?;
    let mut progress = Progress::new("copied");
    let size = everhook_sqlite::back_up(folder, file, |copied| progress.set(copied.done, copied.total))?;
    drop(progress);
    print(&format!("backed up {} to {} ({})\n", folder.display(), file.display(), bytes(size)))
}

/// Puts a backup into the data folder.
pub(crate) fn restore(config: &Config, file: &Path, replace: bool, consent: Consent) -> anyhow::Result<()> {
    let folder = folder(config)?;
    if replace {
        consent.to(&format!("replace the store in {} by {}", folder.display(), file.display()), None)?;
    }
    let existing = if replace { Existing::MoveAside } else { Existing::Refuse };
    let restored = everhook_sqlite::restore(file, folder, existing)?;
    let mut text = format!("restored {} to {}\n", file.display(), restored.file.display());
    if let Some(replaced) = restored.replaced {
        text += &format!("the files of the old store are in {}\n", replaced.display());
    }
    text += "egress is paused: a server on this store accepts messages and sends nothing until `everhook egress \
             resume`\n";
    print(&text)
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
